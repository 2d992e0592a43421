"""Chrome's trace-event format as a JSON schema, and a validator of the part of JSON Schema that it uses.

Input: a trace as JSON reads it. `problems(trace)` is empty for a valid one. What a schema cannot say is checked in code:
arrows have two ends inside events, and events of one thread lie inside each other or apart.
"""

NUMBER = {"type": "number", "minimum": 0}
PLACE = {"pid": {"type": "integer"}, "tid": {"type": "integer"}, "ts": NUMBER}
BASE = {"name": {"type": "string"}, **PLACE}
CATEGORY = {"cat": {"type": "string"}, "args": {"type": "object"}}


def kind(ph, required, **properties):
    """The schema of events with one `ph`."""
    return {
        "type": "object",
        "properties": {"ph": {"enum": [ph]}, **BASE, **properties},
        "required": ["ph", *BASE, *required],
        "additionalProperties": False,
    }


FLOW_END = {"id": {"type": "integer"}, "cat": {"type": "string"}}
EVENT = {
    "oneOf": [
        kind("X", ["dur", "cat", "args"], dur=NUMBER, **CATEGORY),
        kind("B", ["cat"], **CATEGORY),
        kind("E", [], **CATEGORY),
        kind("i", ["s", "cat"], s={"enum": ["t", "p", "g"]}, **CATEGORY),
        kind("s", ["id", "cat"], **FLOW_END),
        kind("f", ["id", "cat"], bp={"enum": ["e"]}, **FLOW_END),
        kind("M", ["args"], args={"type": "object"}),
    ]
}
SCHEMA = {
    "type": "object",
    "properties": {
        "traceEvents": {"type": "array", "items": EVENT},
        "displayTimeUnit": {"enum": ["ms", "ns"]},
        "schemaVersion": {"type": "integer"},
        "otherData": {"type": "object"},
    },
    "required": ["traceEvents"],
    "additionalProperties": False,
}
TYPES = {"object": dict, "array": list, "string": str, "integer": int, "number": (int, float)}


def violations(value, schema, at="trace"):
    """What `schema` says against `value`, each in one line."""
    found = []
    wanted = schema.get("type")
    if wanted and (not isinstance(value, TYPES[wanted]) or isinstance(value, bool)):
        return [f"{at}: expected {wanted}, got {value!r}"]
    if "enum" in schema and value not in schema["enum"]:
        found.append(f"{at}: expected one of {schema['enum']}, got {value!r}")
    if "minimum" in schema and value < schema["minimum"]:
        found.append(f"{at}: {value} is less than {schema['minimum']}")
    if "oneOf" in schema:
        ways = [violations(value, way, at) for way in schema["oneOf"]]
        if sum(not way for way in ways) != 1:
            found.append(f"{at}: {value} fits {sum(not way for way in ways)} of {len(ways)} forms")
    if isinstance(value, dict) and wanted == "object":
        known = schema.get("properties", {})
        found += [f"{at}: no {name}" for name in schema.get("required", ()) if name not in value]
        for name, part in value.items():
            if name in known:
                found += violations(part, known[name], f"{at}.{name}")
            elif schema.get("additionalProperties") is False:
                found.append(f"{at}: {name} is not in the format")
    if isinstance(value, list) and "items" in schema:
        for i, part in enumerate(value):
            found += violations(part, schema["items"], f"{at}[{i}]")
    return found


def problems(trace):
    """Everything that is wrong with a trace."""
    found = violations(trace, SCHEMA)
    return found or [*_arrows(trace["traceEvents"]), *_overlaps(trace["traceEvents"])]


def _arrows(events):
    """Each `s` has one `f` that is not before it, and both ends are inside an event."""
    ends = {ph: {e["id"]: e for e in events if e["ph"] == ph} for ph in "sf"}
    if ends["s"].keys() != ends["f"].keys():
        yield f"arrows begin {sorted(ends['s'])}, end {sorted(ends['f'])}"
        return
    for number, start in ends["s"].items():
        finish = ends["f"][number]
        if finish["ts"] < start["ts"]:
            yield f"arrow {number} ends before it begins"
        for end in (start, finish):
            if not any(e["ph"] == "X" and e["tid"] == end["tid"] and _inside(end["ts"], e) for e in events):
                yield f"arrow {number}: no event at {end}"


ROUNDING = 0.001  # times are microseconds made from whole nanoseconds


def _inside(ts, event):
    return event["ts"] <= ts <= event["ts"] + event["dur"]


def _overlaps(events):
    """Viewers draw the events of a thread as a tree: none may end inside another that began before."""
    spans = sorted(
        ((e["tid"], e["ts"], -e["dur"], e["name"]) for e in events if e["ph"] == "X"), key=lambda s: s[:3]
    )
    open_ = []
    for tid, ts, minus, name in spans:
        end = ts - minus
        open_ = [o for o in open_ if o[0] == tid and o[1] > ts + ROUNDING]
        if open_ and open_[-1][1] < end - ROUNDING:
            yield f"{name} at {ts} ends after {open_[-1][2]} around it"
        open_.append((tid, end, name))
