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
}
