"""What stands in the tables that commands print."""


def cells_of(table: str) -> list[list[str]]:
    """The cells of every line of a table in Markdown; the second line is the rule under the head."""
    return [[cell.strip() for cell in line.split("|")[1:-1]] for line in table.strip().splitlines()]
