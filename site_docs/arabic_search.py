"""An Arabic page's words as a reader types them into the search: without marks, without what is joined to their fronts.

Input: the search index that mkdocs wrote. The browser compares a query with the beginnings of the index's words; Arabic
joins the article and "and", "for", "with" to the front of a word, and its pages write marks that nobody types.
"""

import json
import re

WORD = re.compile("[\u0621-\u065f\u0671]+")
MARKS = re.compile("[\u0640\u064b-\u065f]")  # short vowels, doubling; and the stroke that widens a word
TAG = re.compile(r"<[^>]*>")
# "and"; "with", "as", "for"; the article. "for the" is written as one.
JOINED = [f"{a}{b}" for a in ("", "و", "ف") for b in ("", "ب", "ك", "ل", "ال", "بال", "كال", "لل") if a + b]
LEAST = 3  # letters that are left of a word
PLAIN_ALEF = str.maketrans("أإآٱ", "اااا")  # what is on an alef is often left out


def without_marks(text):
    return MARKS.sub("", text)


def forms(word):
    """What a reader may type to find this word: it, and what is left without its front, with the article or without."""
    word = without_marks(word)
    cores = {word[len(joined) :] for joined in JOINED if word.startswith(joined)}
    cores = {core for core in cores if len(core) >= LEAST}
    typed = {word} | cores | {f"ال{core}" for core in cores}
    return typed | {form.translate(PLAIN_ALEF) for form in typed}


def hidden_words(title, text):
    """The forms of all words of a section that its text does not have, in order."""
    words = WORD.findall(f"{title} {TAG.sub(' ', text)}")
    present = set(map(without_marks, WORD.findall(text)))
    return sorted((set().union(*map(forms, words)) | {w for w in words if w != without_marks(w)}) - present)


def with_forms(index):
    """The index, as JSON: Arabic sections without marks, and behind each text, hidden, what else may be typed."""
    data = json.loads(index)
    for doc in data["docs"]:
        if doc["location"].startswith("ar/") and (words := hidden_words(doc["title"], doc["text"])):
            doc["text"] = f"{without_marks(doc['text'])}<p hidden>{' '.join(words)}</p>"
    return json.dumps(data, ensure_ascii=False, separators=(",", ":"))
