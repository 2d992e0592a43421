"""The page of the tour and of the explorer: functions through every stage, in one HTML file that needs nothing else.

Input: the Artifacts of compiled functions. `write_page` is the way in.
"""

from cutaway.page.document import Specimen, emit_for_both_targets, write_page

__all__ = ["Specimen", "emit_for_both_targets", "write_page"]
