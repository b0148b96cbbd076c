# SPDX-License-Identifier: BSD-3-Clause
# The page: plain HTML with inline SVG charts, without scripts or external resources.
import html
import re

from weft_mpi import __version__, charts

LONG = 20  # characters of a name that a table repeats in full

STYLE = """
:root { color-scheme: light dark; }
body { font: 16px/1.5 system-ui, sans-serif; color: #1a1a1a; background: #fff; max-width: 60rem; margin: 2rem auto;
  padding: 0 1rem; }
h1 { font-size: 1.7rem; } h2 { font-size: 1.25rem; margin-top: 2.5rem; border-bottom: 1px solid #bbb; }
figure { margin: 1rem 0; } figure svg { width: 100%; max-width: 42rem; height: auto; }
table { border-collapse: collapse; width: 100%; font-size: .9rem; } caption { text-align: left; }
th, td { text-align: left; padding: .25rem .6rem; border-bottom: 1px solid #ddd; }
td:first-child, td:last-child { white-space: nowrap; }
@media (max-width: 30rem) { body { padding: 0 .5rem; } table { font-size: .75rem; } th, td { padding: .2rem .3rem; }
  td:first-child, td.figure { white-space: normal; } }
th:nth-child(2) { text-align: right; }
td.figure { text-align: right; font-variant-numeric: tabular-nums; white-space: nowrap; }
.good::before { content: "\\2713  "; } .fair::before { content: "\\25CB  "; } .poor::before { content: "\\2717  "; }
.good { color: #00543d; } .fair { color: #7a4b00; } .poor { color: #8c2d04; font-weight: bold; }
.note { color: #444; font-size: .9rem; }
@media screen and (prefers-color-scheme: dark) { body { color: #e4e4e4; background: #16181b; } .note { color: #b4b4b4; }
  h2 { border-color: #555; } th, td { border-color: #3a3a3a; } a { color: #8ab8ff; }
  .good { color: #5fd0a5; } .fair { color: #f0b54a; } .poor { color: #ff9a76; }
  figure svg { filter: invert(.91) hue-rotate(180deg); } }
@media print { body { max-width: none; margin: 0; font-size: 11px; } h2, figure { break-after: avoid; }
  tr { break-inside: avoid; } }
"""


def inline(svg):
    """Returns an SVG file without its prologue, for inclusion in HTML."""
    text = svg.decode()
    return text[text.index("<svg") :]


def prefix_identifiers(text, prefix):
    """Prefixes the identifiers of an SVG: several charts on a page must not share identifiers."""
    text = re.sub(r'\bid="([^"]+)"', lambda match: f'id="{prefix}-{match.group(1)}"', text)
    text = re.sub(r"url\(#([^)]+)\)", lambda match: f"url(#{prefix}-{match.group(1)})", text)
    return re.sub(r'href="#([^"]+)"', lambda match: f'href="#{prefix}-{match.group(1)}"', text)


def render(title, sections, machines):
    parts = [
        '<!DOCTYPE html>\n<html lang="en">\n<head>\n<meta charset="utf-8">\n'
        '<meta name="viewport" content="width=device-width">\n<link rel="icon" href="data:,">\n'
        f"<title>{html.escape(title)}</title>\n<style>{STYLE}</style>\n</head>\n<body>\n<h1>{html.escape(title)}</h1>\n",
        "".join(f"<p>{html.escape(machine)}</p>\n" for machine in machines),
    ]  # fmt: skip
    for number, section in enumerate(sections):
        parts.append(render_section(section, f"c{number}"))
    parts.append(f'<p class="note">Made by weft report {html.escape(__version__)}. ')
    parts.append("Grades: &#10003; good, &#9675; fair, &#10007; poor.</p>\n</body>\n</html>\n")
    return "".join(parts)


def columns_of(section):
    """Returns (sentence, number of columns): the verdict once, if all rows have the same and no grade; else "", 4."""
    verdicts = {(words, grade) for _, _, words, grade in section["rows"]}
    (words, grade), *others = verdicts or {("", "")}
    return (words, 2) if len(section["rows"]) > 1 and not others and not grade else ("", 4)


def abbreviated(section):
    """Returns (rows, lines): long names of references that occur in several rows become [a], [b], ... in the rows, and
    the lines explain these."""
    rows, lines = section["rows"], []
    for name in sorted(section.get("names", ()), key=len, reverse=True):
        if len(name) > LONG and sum(name in words for _, _, words, _ in rows) > 1:
            letter = "[{}]".format("abcdefghijklmnopqrstuvwxyz"[len(lines)])
            rows = [[what, figure, words.replace(name, letter), grade] for what, figure, words, grade in rows]
            lines.append(f"{letter} {name}")
        if len(lines) == 26:
            break
    return rows, lines


def render_section(section, prefix):
    picture = prefix_identifiers(inline(charts.rendered(charts.figure_of(section["draw"]), "svg")), prefix)
    title = html.escape(section["title"])
    parts = [f"<section>\n<h2>{title}</h2>\n"]
    parts += [f'<p class="note">{html.escape(line)}</p>\n' for line in section["note"]]
    parts.append(f'<figure role="img" aria-label="Chart: {title}">\n{picture}</figure>\n')
    sentence, columns = columns_of(section)
    if sentence:
        parts.append(f'<p class="note">All rows: {html.escape(sentence)}.</p>\n')
    rows, lines = abbreviated(section) if columns > 2 else (section["rows"], [])
    parts += [f'<p class="note">{html.escape(line)}</p>\n' for line in lines]
    parts.append("<table>\n<thead><tr>{}</tr></thead>\n<tbody>\n".format("".join(
        f'<th scope="col">{html.escape(heading)}</th>' for heading in section["headings"][:columns])))  # fmt: skip
    for what, figure, words, grade in rows:
        cells = [f"<td>{html.escape(what)}</td>", f'<td class="figure">{html.escape(figure)}</td>',
                 f"<td>{html.escape(words)}</td>", '<td class="{}">{}</td>'.format(grade or "none", grade)]  # fmt: skip
        parts.append("<tr>{}</tr>\n".format("".join(cells[:columns])))
    parts.append("</tbody>\n</table>\n</section>\n")
    return "".join(parts)


def markdown(title, sections, machines):
    lines = [f"# {title}", "", *machines]
    for section in sections:
        lines += ["", "## {}".format(section["title"]), "", *section["note"], ""]
        lines += ["| {} |".format(" | ".join(section["headings"])), "|%s" % ("---|" * len(section["headings"]))]
        lines += ["| {} |".format(" | ".join(cell.replace("|", "/") for cell in row)) for row in section["rows"]]
    return "\n".join(lines) + "\n"
