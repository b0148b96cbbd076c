#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
# Word check: identifiers, comments, texts and documents use the terms of MPI, CUDA, UCX and NCCL. The tables below hold
# home-made words with the standard term; commit subjects have at most 72 characters.
import argparse
import os
import re
import subprocess
import sys

SOURCES = (".cpp", ".hpp", ".c", ".h", ".cu", ".cuh", ".py", ".sh", ".cmake", ".in", ".txt", ".md", "Makefile")
UNTRACKED = {"build", "dist", ".git"}
SKIPPED = ("bench/results/", "docs/launch-logs/", "include/mpi.h", "tools/check_words.py", "test/setup/checks.py")
MAX_SUBJECT = 72
MAX_WORDS = 45  # of a sentence in a comment; the guideline is 25

# Part of an identifier or word of prose -> the standard term.
WORDS = {
    "copier": "resident kernel",
    "copiers": "resident kernels",
    "granule": "vector (Vec16)",
    "granules": "vectors",
    "agenda": "collective queue",
    "conceal": "deregister",
    "conceals": "deregisters",
    "concealed": "deregistered",
    "linger": "idle timeout",
    "lingers": "stays until the idle timeout",
    "knock": "TCP probe",
    "knocks": "TCP probes",
    "witness": "classification cache, process watch",
    "crossing": "remote request",
    "crossings": "remote requests",
    "offering": "fragment announcement",
    "offerings": "fragment announcements",
    "patience": "timeout",
    "quicker": "faster",
    "quickest": "fastest",
    "inbox": "MPSC queue",
    "inboxes": "MPSC queues",
    "goodbye": "disconnect notice",
}
# Pattern -> the standard term, and texts of which a file with the phrase has one: the search in a whole file is slow.
PHRASES = {
    r"\bin vain\b": ("a name that says the quantity (misses, retries)", ["vain"]),
    r"\bworth_it\b": ("the condition in field terms", ["worth_it"]),
    r"\btaken back\b": ("cancelled", ["taken back"]),
    r"\b(put|written|goes|go|moved) aside\b": ("put into a bounce buffer", [" aside"]),
    r"(?<!sorted )(?<!listed )\bby name\b": ("reported as a slow path", ["by name"]),
    r"\b(one|those|ones) that\b": ("the noun again", ["one that", "those that", "ones that"]),
    # Names of concepts; in prose these words are ordinary ones. CopyOffer: src/p2p still has it.
    r"(?-i:\b(Kept|Present|Fastest|Offer)[A-Z]\w*)": (
        "mapping cache, resident, autotuner, announcement",
        ["kept", "present", "fastest", "offer"],
    ),
    r"\b(is|may_write|access|maps|populate)_(present|kept|fastest)\b": (
        "resident, cached, tuned",
        ["_present", "_kept", "_fastest"],
    ),
    r"(?-i:\b(?!CopyOffer)[A-Z][a-z]\w*(Offer|Way)s?\b|\bk[A-Z]\w*Ways?\b)": (
        "announcement; method, path, protocol",
        ["offer", "way"],
    ),
    r"\bhas done nothing\b": ("without any effect", ["has done nothing"]),
    r"\barchitecture\.md, decision\b": ("the page of docs/adr", ["architecture.md, decision"]),
    r"\bk_?(Few|Many|Enough|Alone|NowAndThen)\b": (
        "a name with quantity and unit",
        ["few", "many", "enough", "alone", "nowandthen"],
    ),
    r"\bwhat (others|ranks|peers|processes) (say|tell|know|ask)\b": (
        "publish, notify, query",
        [f"what {who} " for who in ("others", "ranks", "peers", "processes")],
    ),
    r"\b(rank|peer|process|kernel|receiver|sender|engine|library|ranks|peers|senders|receivers)s? "
    r"(says|tells|asks|hears|knows|meets)\b": (
        "publishes, notifies, queries, has mapped",
        [f" {verb}" for verb in ("says", "tells", "asks", "hears", "knows", "meets")],
    ),
}
PHRASES = {re.compile(pattern, re.IGNORECASE): value for pattern, value in PHRASES.items()}
PART = re.compile(r"[A-Z]+(?![a-z])|[A-Z]?[a-z]+")
COMMENT = re.compile(r"^\s*(?://+[<!/]?|#(?!\s*(?:include|pragma|define|if|else|endif|undef|error|!))|\*)\s?(.*)$")
BAD_SUBJECTS = re.compile(r"^(What|Those|Where|Whoever|Whose)\b(?!.*\?$)")
BAD_SUBJECTS_OF_PAGES = re.compile(r"^(What|Those|Whoever|Whose|Counted)\b(?!.*[?:*]$)")  # "Where" begins conditions
VERBS = set(
    "is are was were be been has have had do does did can may must will would should could cannot needs holds takes"
    " goes makes keeps gives"
    " read write wait call see use return fail run get put set come go take make keep give let begin end stay send".split()
)


def parts(line):
    """Lower-case parts of all identifiers and words of a line."""
    return [part.lower() for part in PART.findall(line)]


def check_line(line, words=WORDS, phrases=PHRASES):
    """(word, standard term) of everything in a line that the tables refuse."""
    for part in parts(line) if words else ():
        if part in words:
            yield part, words[part]
    for pattern, (term, _) in phrases.items():
        match = pattern.search(line)
        if match:
            yield match.group(0), term


def comment_blocks(path, lines):
    """(line number, text, whether it documents a declaration) of each block of full-line comments."""
    start, words = 0, []
    for number, line in enumerate(lines + [""], 1):
        match = COMMENT.match(line)
        if match and "SPDX" not in line and not (path.endswith(".md")):
            start = start or number
            words.append(match.group(1).strip())
        else:
            if words:
                yield start, " ".join(words), lines[start - 1].lstrip().startswith("///")
            start, words = 0, []


def has_verb(sentence):
    """False if no word of the sentence can be a verb."""
    words = re.findall(r"[A-Za-z']+", sentence.lower())
    return any(word in VERBS or re.search(r"(s|ed|ing|en|n't)$", word) for word in words)


def check_comment(text, documents):
    """Complaints about the sentences of one comment block; the documentation of a declaration may be a noun phrase."""
    text = re.sub(r"`[^`]*`|\"[^\"]*\"|\([^()]*\)", "X", text)
    for sentence in re.split(r"(?<=[.?!])\s+(?=[A-Z])", text):
        count = len(sentence.split())
        if BAD_SUBJECTS.match(sentence):
            yield f"sentence begins with '{sentence.split()[0]}': name the subject"
        if count > MAX_WORDS and not re.search(r"[:;|]|->", sentence):
            yield "sentence of %d words: make it two" % count
        if 12 <= count and not documents and sentence.endswith(".") and not has_verb(sentence):
            yield "sentence without a verb: '%s...'" % " ".join(sentence.split()[:6])


def paragraphs(lines):
    """(line number, text) of each paragraph, list item and long cell of a table of a page."""
    start, words, fenced = 0, [], False
    for number, line in enumerate([*lines, ""], 1):
        item = re.match(r"\s*(?:[-*]|\d+\.) ", line)
        fence = re.match(r"\s*(```|~~~)", line)
        fenced = fenced != bool(fence)
        if words and (item or fenced or fence or not line.strip() or line.startswith(("#", "|"))):
            yield start, " ".join(words)
            words = []
        if line.startswith("|"):
            yield from ((number, cell.strip()) for cell in line.split("|") if len(cell.split()) > 6)
        elif line.strip() and not fenced and not fence and not line.startswith("#"):
            start = start if words else number
            words.append(line[item.end() :].strip() if item else line.strip())


def check_page(lines):
    """(line number, complaint) of the sentences of a page."""
    for number, text in paragraphs(lines):
        for sentence in re.split(r"(?<=[.:!?])\s+(?=[A-Z`\[])", text):
            if BAD_SUBJECTS_OF_PAGES.match(sentence):
                yield number, f"sentence begins with '{sentence.split()[0]}': name the subject"


def check_file(root, path):
    """All complaints about one file."""
    with open(os.path.join(root, path), encoding="utf-8", errors="replace") as file:
        text = file.read()
    lines = text.splitlines()
    lowered = text.lower()
    words = {word: term for word, term in WORDS.items() if word in lowered}
    phrases = {pattern: value for pattern, value in PHRASES.items() if any(hint in lowered for hint in value[1])}
    phrases = {pattern: value for pattern, value in phrases.items() if pattern.search(text)}
    for number, line in enumerate(lines if words or phrases else (), 1):
        for word, term in check_line(line, words, phrases):
            yield "%s:%d: '%s' is not a term of the field: %s" % (path, number, word, term)
    if path.endswith(".md") and not path.startswith("docs/adr/"):
        for number, complaint in check_page(lines):
            yield "%s:%d: %s" % (path, number, complaint)
    if not path.endswith((".md", ".txt")):
        for number, text, documents in comment_blocks(path, lines):
            for complaint in check_comment(text, documents):
                yield "%s:%d: %s" % (path, number, complaint)


def git(root, *words):
    """Lines of git's output; one empty line without git or a repository."""
    try:
        return subprocess.run(["git", "-C", root, *words], capture_output=True, text=True).stdout.split("\n")
    except OSError:
        return [""]


def check_commits(root):
    """Complaints about the subjects of the commits since this check exists."""
    first = git(root, "log", "--diff-filter=A", "--format=%H", "--", "tools/check_words.py")[0]
    for line in git(root, "log", "--no-merges", "--format=%h %s", first + "..HEAD") if first else []:
        name, _, subject = line.partition(" ")
        if len(subject) > MAX_SUBJECT:
            yield "commit %s: subject of %d characters, more than %d" % (name, len(subject), MAX_SUBJECT)


def files(root):
    """Paths of the tree's text files, from git or, without it, from the folders."""
    listed = git(root, "ls-files")
    if listed == [""]:
        listed = []
        for where, folders, names in os.walk(root):
            folders[:] = [folder for folder in folders if folder not in UNTRACKED]
            listed += [os.path.relpath(os.path.join(where, name), root) for name in names]
    return sorted(path for path in listed if path.endswith(SOURCES) and not path.startswith(SKIPPED)
                  and os.path.isfile(os.path.join(root, path)))  # fmt: skip


def main():
    parser = argparse.ArgumentParser(
        description="Refuses home-made words in names, comments, texts and commit subjects."
    )
    parser.add_argument("paths", nargs="*", help="files or folders; all of the tree if none is given")
    parser.add_argument("--root", default=os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
    arguments = parser.parse_args()
    chosen = [path for path in files(arguments.root) if not arguments.paths or path.startswith(tuple(arguments.paths))]
    complaints = [complaint for path in chosen for complaint in check_file(arguments.root, path)]
    complaints += check_commits(arguments.root)
    print("\n".join(complaints) or "words: %d files in order" % len(chosen))
    return 1 if complaints or not chosen else 0


if __name__ == "__main__":
    sys.exit(main())
