/* Lets the site's search run when a page is opened from the disk: a browser starts no Worker from file://, so a hidden
   frame plays its part. Input: the theme's `new Worker(url)`. Elsewhere than on file:// nothing is changed. */
if (location.protocol === "file:") {
  window.Worker = class extends EventTarget {
    constructor(url) {
      super()
      this.waiting = []
      this.frame = document.createElement("iframe")
      this.frame.hidden = true
      document.body.append(this.frame)
      const inside = this.frame.contentWindow
      // What a worker has and a frame has not: a way to post to its owner, and scripts loaded by name.
      inside.postMessage = data =>
        this.dispatchEvent(new MessageEvent("message", { data: structuredClone(data) }))
      inside.importScripts = async (...urls) => { for (const next of urls) await this.load(next) }
      this.load(url).then(() => {
        this.ready = true
        this.waiting.splice(0).forEach(data => this.postMessage(data))
      })
    }
    load(url) {
      return new Promise((resolve, reject) => {
        const script = this.frame.contentDocument.createElement("script")
        Object.assign(script, { src: url, onload: resolve, onerror: reject })
        this.frame.contentDocument.body.append(script)
      })
    }
    postMessage(data) {
      if (this.ready) this.frame.contentWindow.dispatchEvent(new MessageEvent("message", { data }))
      else this.waiting.push(data)
    }
    terminate() { this.frame.remove() }
  }
  window.IFrameWorker = window.Worker  // by this name the theme's worker knows where its languages' scripts are
}
