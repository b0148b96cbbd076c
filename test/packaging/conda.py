#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
# The conda recipe with rattler-build: rendered as a channel's build would, then a package made of the prefix under test,
# installed in an environment of its own and tested there. Exit status 77: rattler-build cannot be installed.
import importlib
import os
import shutil
import subprocess
import sys
import tempfile

ROOT = os.path.normpath(os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", ".."))
RECIPE = os.path.join(ROOT, "packaging", "conda", "recipe.yaml")
PREFIX = os.environ["MPI_PREFIX"]


def rattler_build(folder):
    """Returns the module, downloaded from the Python index if it is missing."""
    try:
        return importlib.import_module("rattler_build")
    except ImportError:
        command = [sys.executable, "-m", "pip", "install", "-q", "--target", folder, "py-rattler-build"]
        subprocess.run(command, check=False)
    sys.path.insert(0, folder)
    try:
        return importlib.import_module("rattler_build")
    except ImportError:
        print("skipped: rattler-build cannot be installed")
        sys.exit(77)


def rendered(tool):
    """Returns the recipe as rendered for Linux with the variants of conda-forge that it needs."""
    variants = tool.VariantConfig({"c_stdlib": ["sysroot"], "c_stdlib_version": ["2.28"]})
    (variant,) = tool.Stage0Recipe.from_file(RECIPE).render(variants)
    return variant.recipe.to_dict()


def main():
    with tempfile.TemporaryDirectory() as folder:
        tool = rattler_build(os.path.join(folder, "python"))
        script = f". '{ROOT}/packaging/need.sh'; need patchelf patchelf"
        if subprocess.run(["sh", "-c", script], check=False).returncode != 0 or shutil.which("patchelf") is None:
            return 77
        os.environ.pop("WEFT_PREBUILT", None)
        recipe = rendered(tool)
        assert len(recipe["requirements"]["build"]) == 8 and "cmake --install" in str(recipe["build"]["script"]), recipe
        os.environ["WEFT_PREBUILT"] = os.path.realpath(PREFIX)
        assert "build" not in rendered(tool)["requirements"]
        channel = os.path.join(folder, "channel")
        for name in ("noarch", "linux-64"):
            os.makedirs(os.path.join(channel, name))
            with open(os.path.join(channel, name, "repodata.json"), "w", encoding="utf-8") as file:
                file.write('{"packages": {}, "packages.conda": {}}')
        settings = tool.ToolConfiguration(test_strategy="skip")
        (result,) = tool.Stage0Recipe.from_file(RECIPE).run_build(
            tool.VariantConfig(), settings, output_dir=os.path.join(folder, "out"), channels=["file://" + channel]
        )
        (package,) = result.packages
        for test in tool.Package.from_file(str(package)).run_tests(channel=["file://" + channel]):
            print("\n".join(test.output))
            assert test.success
            assert any(line.startswith("Largest difference to the result of one rank: 0 ") for line in test.output)
        print(f"{os.path.basename(str(package))}: {os.path.getsize(package) / 1e6:.1f} MB")
    return 0


if __name__ == "__main__":
    sys.exit(main())
