"""What the labs and the site offer a learner: 24 features, each with a command that shows it and a test.

Input: FEATURES. `features_page()` is the page; tests/docs/test_features.py runs the commands that CI does not.
"""

from dataclasses import dataclass


@dataclass(frozen=True)
class Feature:
    """`test` is a file with the name of a test in it; a feature without one says in `where` that it is not there."""

    name: str
    where: str
    command: str
    test: str


def _row(name, where, command, test=""):
    return Feature(name, where, command, test)


FEATURES = (
    _row("executed code blocks", "every block of Python and every output on the pages is run", "make site",
         "tests/docs/test_pages.py::test_every_example_runs"),
    _row("real source in pages", "the chapters show functions of the packages, with their lines", "make site",
         "tests/docs/test_chapters.py::test_every_mark_of_the_chapters_is_filled_and_every_text_is_shown"),
    _row("step through the IRs", "the explorer: one page, a station for each step; arrows walk",
         "cutaway explain script.py:function", "tests/tour/test_explorer.py::test_a_page_of_any_program"),
    _row("playground", "a page on your machine: change a program, run it, and the explorer shows it anew",
         "cutaway playground", "tests/tour/test_playground.py::test_a_changed_program_is_shown_anew"),
    _row("golden IR", "kept texts of artifacts and kernels, compared in tests",
         "pytest tests/kernels/test_golden_kernels.py",
         "tests/kernels/test_golden_kernels.py::golden"),
    _row("swap with conformance", "your function in the place of a stage's, tested in three tiers",
         "pytest stage2_autograd --swap partition=mine.py:partition --tier first",
         "tests/docs/test_start_page.py::test_the_page_can_be_followed"),
    _row("autograder", "checks that name your mistake", "cutaway lab check",
         "labs/tests/test_labs.py::test_a_wrong_answer_fails_and_is_told_why"),
    _row("hidden tests", "cases whose answers are kept as salted hashes", "cutaway lab check",
         "labs/tests/test_derived.py::test_a_hidden_case_is_of_integers_and_text"),
    _row("starter drift check", "starters are cut out of the packages' own source, and tested",
         "make labs", "labs/tests/test_tagged.py::test_the_starter_has_an_error_in_the_place_of_each_wanted_body"),
    _row("must fail as shipped", "each starter fails its own checks", "make labs",
         "labs/tests/test_labs.py::test_the_starter_is_imported_and_fails"),
    _row("a difference for each lab", "your file beside the starter or the reference", "cutaway lab diff",
         "labs/tests/test_command.py::test_a_lab_from_start_to_end"),
    _row("state without copying", "you can start with any lab; the others' parts are the compiler's own",
         "cutaway lab start 5", "labs/tests/test_labs.py::test_the_reference_passes"),
    _row("notebooks", "each lab as a notebook, made from its page and starter", "make site",
         "tests/docs/test_features.py::test_each_lab_has_its_notebook_on_the_site"),
    _row("API reference", "made from docstrings", "make site",
         "tests/docs/test_site_pages.py::test_every_name_of_the_api_pages_exists"),
    _row("links from pages to source", "a page of source for each file that a page names", "make site",
         "tests/docs/test_site_pages.py::test_links_to_source_lead_to_pages_with_those_lines"),
    _row("search", "offline, in both languages", "make site-check",
         "tests/docs/test_site_pages.py::test_the_searches_have_pages"),
    _row("dark mode", "the site and the explorer, checked in both themes", "make site-check",
         "tests/docs/test_site_pages.py::test_both_themes_are_there"),
    _row("glossary", "a page, and each word's meaning where you point at it", "make site",
         "tests/docs/test_arabic.py::test_every_term_has_a_word_in_both_languages"),
    _row("progress", "what you started, and what passed", "cutaway lab status",
         "labs/tests/test_command.py::test_a_lab_from_start_to_end"),
    _row("time estimates", "each lab says how many hours it takes", "cutaway lab list",
         "labs/tests/test_command.py::test_the_list_names_every_lab"),
    _row("offline", "no page asks another host for anything", "make site-check",
         "tests/tour/test_explorer.py::test_a_page_of_any_program"),
    _row("accessibility, tested", "axe-core on every page, both themes, phone and desktop", "make site-check",
         "tests/docs/test_site_pages.py::test_the_report_of_the_browser_is_clean"),
    _row("a second language", "five pages and the glossary in Arabic, from right to left", "make site",
         "tests/docs/test_arabic.py::test_the_english_page_has_not_changed_since"),
    _row("hardware gating", "what needs a GPU, a compiler or MPI says so and is skipped", "cutaway doctor",
         "tests/debug/test_doctor.py::skipif"),
)  # fmt: skip


def features_page():
    rows = [
        f"| {k} | **{f.name}** | {f.where} | `{f.command}` | `{f.test.partition('::')[0] or 'none'}` |"
        for k, f in enumerate(FEATURES, 1)
    ]
    there = sum(1 for feature in FEATURES if feature.test)
    return (
        "---\nhide: [toc]\n---\n\n# What helps you learn\n\n"
        f"{there} of {len(FEATURES)} features are there. Each row has a command that shows it, "
        "and the file of its test.\n\n"
        "| | feature | what it is | command | test |\n| --- | --- | --- | --- | --- |\n"
        + "\n".join(rows)
        + "\n"
    )
