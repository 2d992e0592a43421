"""The code that remains: gather the inputs, run the graph, make objects again, replay side effects."""
