"""How records stand in lines: what `produce` reads and `consume` prints. Pure.

In: bytes and options. Out: columns of records, and bytes. Begin with `line_format` (lines in),
`json_lines` (both ways), `formats` (lines out).
"""
