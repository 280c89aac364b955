"""Pages as tests read them: tables as rows of words, and what the rest says."""

from html.parser import HTMLParser


class Page(HTMLParser):
    """A page, taken apart."""

    def __init__(self, source: str) -> None:
        super().__init__()
        self.tables: list[list[list[str]]] = []
        self.tags: list[tuple[str, dict[str, str | None]]] = []
        self._words: list[str] = []
        self._silent, self._in_cell = 0, False
        self.feed(source)
        self.text = " ".join(" ".join(self._words).split())

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append((tag, dict(attrs)))
        self._silent += tag in ("style", "script")
        if tag == "table":
            self.tables.append([])
        elif tag == "tr":
            self.tables[-1].append([])
        elif tag in ("td", "th"):
            self.tables[-1][-1].append("")
            self._in_cell = True

    def handle_endtag(self, tag: str) -> None:
        self._silent -= tag in ("style", "script")
        self._in_cell = self._in_cell and tag not in ("td", "th")

    def handle_data(self, data: str) -> None:
        if self._silent:
            return
        self._words.append(data)
        if self._in_cell:
            cell = f"{self.tables[-1][-1][-1]} {data}"
            self.tables[-1][-1][-1] = " ".join(cell.split())
