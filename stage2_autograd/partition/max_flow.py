"""Maximum flow by Dinic's algorithm, and the sink's side of the minimum cut.

Input: edges with capacities, from `min_cut.py`. The algorithm is E. A. Dinic's of 1970: find the distance of every
vertex to the sink, push flow along shortest paths until none is left, and repeat until there is no path. We do not use
a library, because its import takes longer than the algorithm does for a model.
"""

from __future__ import annotations

from collections.abc import Sequence

NetworkEdge = tuple[int, int, int]  # tail, head, capacity


def sink_side(edges: Sequence[NetworkEdge], size: int, source: int, sink: int) -> list[bool]:
    """For each of `size` vertices: whether it is on the sink's side of the minimum cut nearest to the sink.

    These are the vertices from which more flow could reach the sink. A maximum flow is not unique, but this set is: it
    is the smallest sink side of all minimum cuts.
    """
    # Edge e and its reverse e ^ 1 are neighbours in these lists, so that the tail of e is head[e ^ 1].
    head: list[int] = []
    room: list[int] = []  # the remaining capacity of each edge
    leaving: list[list[int]] = [[] for _ in range(size)]
    for tail, end, capacity in edges:
        leaving[tail].append(len(head))
        leaving[end].append(len(head) + 1)
        head += (end, tail)
        room += (capacity, 0)
    while True:
        distance = _distances(head, room, leaving, sink)
        if distance[source] < 0:
            return [d >= 0 for d in distance]
        _block(head, room, leaving, distance, source, sink)


def _distances(head: list[int], room: list[int], leaving: list[list[int]], sink: int) -> list[int]:
    """For each vertex, the length of the shortest path with remaining capacity to the sink; -1 if there is none."""
    distance = [-1] * len(leaving)
    distance[sink] = 0
    level = [sink]
    far = 0
    while level:
        far += 1
        further = []
        for vertex in level:
            for edge in leaving[vertex]:
                before = head[edge]
                if distance[before] < 0 and room[edge ^ 1]:
                    distance[before] = far
                    further.append(before)
        level = further
    return distance


def _block(
    head: list[int], room: list[int], leaving: list[list[int]], distance: list[int], source: int, sink: int
) -> None:
    """Push flow along shortest paths until each has an edge without remaining capacity."""
    tried = [0] * len(leaving)  # for each vertex, how many of its edges are of no more use
    path: list[int] = []
    vertex = source
    while True:
        if vertex == sink:
            pushed = min([room[edge] for edge in path])
            for edge in path:
                room[edge] -= pushed
                room[edge ^ 1] += pushed
            full = next(i for i, edge in enumerate(path) if not room[edge])
            vertex = head[path[full] ^ 1]
            del path[full:]
        edges, i, nearer = leaving[vertex], tried[vertex], distance[vertex] - 1
        while i < len(edges) and not (room[edges[i]] and distance[head[edges[i]]] == nearer):
            i += 1
        tried[vertex] = i
        if i < len(edges):
            path.append(edges[i])
            vertex = head[edges[i]]
        elif vertex != source:
            vertex = head[path.pop() ^ 1]
            tried[vertex] += 1
        else:
            return
