# SPDX-License-Identifier: BSD-3-Clause
# Hooks of mkdocs: build a site from pages written for the source tree. Links to files outside docs/ are redirected to
# copies in the site, and differences between GitHub's Markdown and Python's are resolved.
import logging
import os
import posixpath
import re

from mkdocs.structure.files import File

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
# Documents outside docs/ that are pages of the site.
PAGES = {
    "CONTRIBUTING.md": "contributing.md",
    "CHANGELOG.md": "changelog.md",
    "packaging/README.md": "packaging.md",
    "examples/python/README.md": "python-examples.md",
}
LINK = re.compile(r"(?<!!)\[([^\]]*)\]\(([^)\s]+)\)")
FENCE = re.compile(r"^\s*(```|~~~)")
ITEM = re.compile(r"^\s*([-*]|\d+\.) ")
NEEDS = re.compile(r"^(\s*)<!-- needs: (.+) -->\s*$")
CODE = re.compile(r"`[^`]*`")
log = logging.getLogger("mkdocs.plugins.weft")


def read(path):
    with open(os.path.join(ROOT, path), encoding="utf-8") as file:
        return file.read()


def on_config(config):
    """Puts the version at the foot of each page, and the repository at its head if pyproject.toml has its address."""
    version = re.search(r"project\(weft VERSION ([0-9.]+)", read("CMakeLists.txt"))[1]
    config.copyright = f"Weft {version}, licence BSD-3-Clause"
    repository = re.search(r'^Repository = "(.+)"$', read("pyproject.toml"), re.MULTILINE)
    if repository:
        config.repo_url = repository[1]
    return config


def on_files(files, config):
    """Adds the documents outside docs/."""
    for source, page in PAGES.items():
        path = os.path.join(ROOT, source)
        if os.path.exists(path):
            files.append(File.generated(config, page, abs_src_path=path))
    return files


def repository_path(uri):
    """Returns the path in the tree of a page."""
    for source, page in PAGES.items():
        if page == uri:
            return source
    return posixpath.join("docs", uri)


def site_uri(path, files, config):
    """Returns the URI in the site for a path of the tree; None if the path does not exist."""
    if path in PAGES:
        return PAGES[path]
    full = os.path.join(ROOT, path)
    if os.path.isdir(full):
        inside = posixpath.join(path, "README.md")
        return site_uri(inside, files, config) if os.path.exists(os.path.join(ROOT, inside)) else None
    if not os.path.exists(full):
        return None
    if path.startswith("docs/"):
        return path[len("docs/") :]
    uri = posixpath.join("source", path + (".txt" if path.endswith(".md") else ""))
    if files.get_file_from_path(uri) is None:
        files.append(File.generated(config, uri, abs_src_path=full))
    return uri


def rewrite_links(line, page, files, config):
    """Returns a line with links rewritten to URIs of the site."""

    def replace(match):
        text, target = match.groups()
        if re.match(r"^([a-z]+:|#|/)", target):
            return match.group(0)
        path, _, anchor = target.partition("#")
        origin = repository_path(page.file.src_uri)
        resolved = posixpath.normpath(posixpath.join(posixpath.dirname(origin), path))
        uri = site_uri(resolved, files, config)
        if uri is None:
            log.warning("%s: broken link to %s", origin, target)
            return match.group(0)
        relative = posixpath.relpath(uri, posixpath.dirname(page.file.src_uri) or ".")
        return "[%s](%s)" % (text, relative + ("#" + anchor if anchor else ""))

    return LINK.sub(replace, line)


def on_page_markdown(markdown, page, config, files):
    """Rewrites `needs` marks, links, lists without a preceding empty line, and escaped bars in table code."""
    lines, fenced = [], False
    for line in markdown.split("\n"):
        if FENCE.match(line):
            fenced = not fenced
        elif not fenced:
            line = NEEDS.sub(r'\1<span class="needs">needs \2</span>\n', line)
            line = rewrite_links(line, page, files, config)
            if line.startswith("|"):
                line = CODE.sub(lambda code: code.group(0).replace("\\|", "|"), line)
            before = lines[-1] if lines else ""
            starts_list = ITEM.match(line) and not line.startswith(" ")
            if starts_list and before.strip() and not ITEM.match(before) and not before.startswith((" ", "#")):
                lines.append("")
        lines.append(line)
    return "\n".join(lines)
