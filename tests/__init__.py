"""What crosses the stages: whole programs, models, the differential oracle. One folder answers one question.

Each folder's docstring says which; a stage's own tests are in the stage.
"""
