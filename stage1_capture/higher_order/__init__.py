"""Functions that become graphs of their own inside a node: control flow, transforms, the backward."""
