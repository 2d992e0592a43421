"""The page of the tour: one function through every stage, in one HTML file that needs nothing else.

Input: the Artifacts of compiled functions and, where there was one, the training run. `write_page` is the
way in.
"""

from cutaway.tour.page.document import Specimen, write_page

__all__ = ["Specimen", "write_page"]
