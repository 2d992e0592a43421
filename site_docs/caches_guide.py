"""The programs of the guide on caches, and what each prints when the site is built: PROGRAMS and SHOWN.

Input: nothing from elsewhere. guide_page.py runs them.
"""

PROGRAMS = {
    "cached.py": """\
import cutaway

@cutaway.compile
def f(x):
    return (x.sin() * 2).sum()

print(f(cutaway.ones(1000)).item())
""",
    "save.py": """\
import cutaway

print(cutaway.compiler.save_cache("kernels.zip"), "entries saved")
""",
    "load.py": """\
import cutaway

try:
    cutaway.compiler.load_cache("kernels.zip")
except PermissionError as error:
    print(error)
print(cutaway.compiler.load_cache("kernels.zip", trust=True), "entries loaded")
""",
    "save_function.py": """\
import cutaway

def score(x, weights):
    return (x @ weights).softmax(-1)

call = ((cutaway.ones(8, 16), cutaway.ones(16, 4)), {})
compiled = cutaway.compile(score, fullgraph=True).aot_compile(call)
compiled.save_compiled_function("score.bin")
""",
    "load_function.py": """\
import cutaway

score = cutaway.compiler.load_compiled_function("score.bin", trust=True)
print(score(cutaway.ones(8, 16), cutaway.ones(16, 4))[0])
try:
    score(cutaway.ones(9, 16), cutaway.ones(16, 4))
except RuntimeError as error:
    print(error)
""",
}
SHOWN = {
    "twice": (
        "CUTAWAY_RUNTIME_CACHE_DIR=here CUTAWAY_LOGS=cache python cached.py\n"
        "CUTAWAY_RUNTIME_CACHE_DIR=here CUTAWAY_LOGS=cache python cached.py",
        8,
    ),
    "bundle": (
        "export CUTAWAY_RUNTIME_CACHE_DIR=here; python cached.py; python save.py\n"
        "CUTAWAY_RUNTIME_CACHE_DIR=there python load.py",
        8,
    ),
    "function": (
        "python save_function.py\nCUTAWAY_RUNTIME_CXX=none CUTAWAY_RUNTIME_CACHE=0 python load_function.py",
        8,
    ),
}
