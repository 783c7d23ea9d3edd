#!/usr/bin/env python3
"""Writes the man pages of ptod and ptoctl from what their --help prints.

ptod(8) describes the daemon, ptoctl(1) the client, and ptoctl-NOUN(1) its commands of one noun.

Usage: man_pages.py --ptod PROGRAM --ptoctl PROGRAM --version VERSION --date DATE --out DIRECTORY
"""

import argparse
import pathlib
import re
import subprocess

SEE_ALSO = {
    "ptod": ["ptoctl(1)"],
    "ptoctl": ["ptod(8)"],
}
FILES = """\
.SH FILES
.TP
.I /etc/ptod/ptod.conf.txtpb
Configuration of the system's daemon, every setting with a comment.
.TP
.I /run/ptod/ptod.sock
Its socket. Members of the group ptod may use it.
.TP
.I /var/lib/ptod
Its state: the journal of runs and the record of usage.
"""
SECTION = re.compile(r"^(Arguments|Options|Commands):$")


class Help:
    """What a command prints for --help, in parts."""

    def __init__(self, command, arguments):
        text = subprocess.run(
            [command, *arguments, "--help"], check=True, capture_output=True, text=True
        ).stdout
        self.description, self.usage = "", ""
        self.sections = {}  # name: list of [term, text]
        self.footer = []
        section, items, before = None, None, []
        for line in text.splitlines():
            heading = SECTION.match(line)
            if line.startswith("Usage: "):
                self.usage = line[len("Usage: ") :]
            elif heading:
                section, items = heading[1], []
                self.sections[section] = items
            elif section is None:
                if not self.usage:
                    before.append(line)
            elif items is not None and line.startswith("  "):
                add_item(items, line)
            elif items is not None and not line:
                items = None  # another section or the footer follows
            else:
                self.footer.append(line)
                items = None
        self.description = " ".join(line for line in before if line)

    def commands(self):
        return [term for term, _ in self.sections.get("Commands", [])]


def add_item(items, line):
    """A line of a list: a term, its text, or both."""
    term, _, text = line.strip().partition("  ")
    if line.startswith("      "):
        # Behind a term too long for its column.
        items[-1][1] = f"{items[-1][1]} {line.strip()}".strip()
    else:
        items.append([term, text.strip()])


def roff(text):
    """Text that troff leaves alone."""
    text = text.replace("\\", "\\e").replace("-", "\\-")
    return re.sub(r"^([.'])", r"\\&\1", text, flags=re.MULTILINE)


def paragraphs(lines):
    """The footer of a help: paragraphs, and indented lines that stay as they are."""
    out, verbatim = [], False
    for line in lines:
        if line.startswith("  ") != verbatim:
            out.append(".EX" if not verbatim else ".EE")
            verbatim = not verbatim
        if line:
            out.append(roff(line))
        elif not verbatim:
            out.append(".PP")
    if verbatim:
        out.append(".EE")
    while out and out[0] == ".PP":
        out.pop(0)
    return [line for i, line in enumerate(out) if line != ".PP" or out[i - 1] != ".PP"]


def body(help_, heading):
    """The sections of one command, below headings of the given kind."""
    out = []
    for name in ("Arguments", "Options"):
        items = [
            item for item in help_.sections.get(name, []) if heading == ".SH" or item[0] != "-h,--help"
        ]
        if not items:
            continue
        out.append(f"{heading} {name.upper()}" if heading == ".SH" else f".PP\n{name}:")
        for term, text in items:
            out += [".TP", f".B {roff(term)}", roff(text)]
    return out


def page(name, number, summary, parts, version, date):
    also = ", ".join(
        "\\fB%s\\fR%s" % (other[:-3], other[-3:]) for other in SEE_ALSO.get(name, ["ptoctl(1)"])
    )
    head = f'.TH {name.upper()} {number} "{date}" "ptod {version}" "ptod"'
    lines = [head, ".SH NAME", f"{roff(name)} \\- {roff(summary)}", *parts, ".SH SEE ALSO", also]
    return "\n".join(lines) + "\n"


def first_sentence(text):
    text = text.split(". ")[0].rstrip(".")
    return text[0].lower() + text[1:]


def daemon_page(program, version, date):
    help_ = Help(program, [])
    description = help_.description
    parts = [".SH SYNOPSIS", f".B {roff(help_.usage)}", ".SH DESCRIPTION", roff(description)]
    parts += body(help_, ".SH") + [FILES.rstrip()] + paragraphs(help_.footer)
    return page("ptod", 8, "daemon that runs task graphs on NPU chips", parts, version, date)


def verb_parts(program, path):
    """The description of one command in the page of its noun."""
    help_ = Help(program, path)
    parts = [f".SS {roff(' '.join(path))}", f".B {roff(help_.usage)}", ".PP"]
    parts += [roff(help_.description)]
    parts += body(help_, ".SS")
    if help_.footer:
        parts += [".PP"] + paragraphs(help_.footer)
    for verb in help_.commands():
        parts += verb_parts(program, [*path, verb])
    return parts


def noun_page(program, noun, version, date):
    help_ = Help(program, [noun])
    name = f"ptoctl-{noun}"
    parts = [".SH SYNOPSIS", f".B {roff(help_.usage)}", ".SH DESCRIPTION", roff(help_.description)]
    parts += body(help_, ".SH")
    if help_.commands():
        parts.append(".SH COMMANDS")
        for verb in help_.commands():
            parts += verb_parts(program, [noun, verb])
    if help_.footer:
        parts += [".SH NOTES"] + paragraphs(help_.footer)
    return page(name, 1, first_sentence(help_.description), parts, version, date)


def client_page(program, version, date):
    help_ = Help(program, [])
    parts = [".SH SYNOPSIS", f".B {roff(help_.usage)}", ".SH DESCRIPTION", roff(help_.description)]
    parts += body(help_, ".SH") + [".SH COMMANDS"]
    for noun, text in help_.sections["Commands"]:
        parts += [".TP", f".BR ptoctl\\-{roff(noun)} (1)", roff(text)]
    parts += [".SH NOTES"] + paragraphs(help_.footer)
    return page("ptoctl", 1, "control a ptod daemon", parts, version, date)


def main():
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    for option in ("ptod", "ptoctl", "version", "date", "out"):
        parser.add_argument(f"--{option}", required=True)
    given = parser.parse_args()
    out = pathlib.Path(given.out)
    out.mkdir(parents=True, exist_ok=True)
    (out / "ptod.8").write_text(daemon_page(given.ptod, given.version, given.date))
    (out / "ptoctl.1").write_text(client_page(given.ptoctl, given.version, given.date))
    for noun in Help(given.ptoctl, []).commands():
        text = noun_page(given.ptoctl, noun, given.version, given.date)
        (out / f"ptoctl-{noun}.1").write_text(text)


if __name__ == "__main__":
    main()
