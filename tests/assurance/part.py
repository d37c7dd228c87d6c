"""One part of docs/assurance.md: what was tried, what was found, and whether all of it is as promised."""

from dataclasses import dataclass


@dataclass(frozen=True, kw_only=True)
class Part:
    """A table of what was tried and survived.

    Args:
        title: Of the section.
        says: What was tried, and how to read the table.
        header: Names of the columns.
        rows: One for each thing that was tried.
        passed: Whether every promise held.
    """

    title: str
    says: str
    header: tuple[str, ...]
    rows: tuple[tuple[str, ...], ...]
    passed: bool

    def markdown(self) -> str:
        """Returns the part as a section of Markdown."""
        lines = [self.header, tuple("---" for _ in self.header), *self.rows]
        table = "\n".join(f"| {' | '.join(cell.replace('|', chr(92) + '|') for cell in line)} |" for line in lines)
        return f"## {self.title}\n\n{self.says}\n\n{table}\n"
