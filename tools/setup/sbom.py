#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
# Software bill of materials: writes what an installation of Weft contains besides its own code, with licences, as CycloneDX
# 1.6 JSON. The same inputs give the same bytes: no time, and a serial number made of the content.
import argparse
import glob
import json
import os
import re
import uuid
from email.parser import HeaderParser

NAMESPACE = uuid.UUID("5f1f6e0c-6f0e-5d53-9d3e-0d6a3f3f2a10")  # of serial numbers
GCC = "GPL-3.0-or-later WITH GCC-exception-3.1"
RUNTIME = "library of the compiler, linked into Weft's binaries"
KERNELS = "compiler of the GPU kernels, whose headers and device functions they contain"
GENERATED = "the MPI Forum's description of the API, from which headers and bindings are generated"


def component(name, version, purl, licence, description, kind="library"):
    """Returns a component. `licence`: an SPDX expression, or the name of a licence that SPDX does not list."""
    is_expression = " " not in re.sub(" (AND|OR|WITH) ", "", licence)
    licences = [{"expression": licence}] if is_expression else [{"license": {"name": licence}}]
    return {
        "type": kind,
        "bom-ref": purl,
        "name": name,
        "version": version,
        "description": description,
        "licenses": licences,
        "purl": purl,
    }


def pypi(name, version):
    """Returns the package URL of a Python package."""
    return f"pkg:pypi/{name.lower()}@{version}"


def python_package(folder, description):
    """Returns the component of an unpacked Python package, from its folder *.dist-info."""
    with open(os.path.join(folder, "METADATA"), encoding="utf-8") as file:
        fields = HeaderParser().parse(file)
    classified = [text.rpartition(" :: ")[2] for text in fields.get_all("Classifier", []) if text.startswith("License")]
    licence = fields["License-Expression"] or fields["License"] or " ".join(classified)
    if not licence or "\n" in licence:
        raise SystemExit(f"sbom: error: {folder}/METADATA names no licence")
    licence = {"MIT License": "MIT"}.get(licence, licence)
    return component(fields["Name"], fields["Version"], pypi(fields["Name"], fields["Version"]), licence, description)


def packages(folder, description):
    """Returns the components of the Python packages in a folder."""
    found = sorted(glob.glob(os.path.join(glob.escape(folder), "*.dist-info"))) if folder else []
    return [python_package(path, description) for path in found]


def bill(version, commit, compiler, components):
    """Returns the document."""
    purl = pypi("weft-mpi", version)
    own = component("weft-mpi", version, purl, "BSD-3-Clause", "A CUDA-aware MPI library with the MPI 5.0 standard ABI")
    own["properties"] = [{"name": "weft:commit", "value": commit}]
    runtime = [
        component(name, compiler, f"pkg:generic/{name}@{compiler}", GCC, RUNTIME) for name in ("libgcc", "libstdc++")
    ]
    components = [*runtime, *components]
    document = {
        "$schema": "http://cyclonedx.org/schema/bom-1.6.schema.json",
        "bomFormat": "CycloneDX",
        "specVersion": "1.6",
        "version": 1,
        "metadata": {"component": own, "lifecycles": [{"phase": "build"}]},
        "components": components,
        "dependencies": [
            {"ref": purl, "dependsOn": [each["bom-ref"] for each in components]},
            *({"ref": each["bom-ref"]} for each in components),
        ],
    }
    content = json.dumps(document, sort_keys=True)
    return {**document, "serialNumber": uuid.uuid5(NAMESPACE, content).urn}


def main():
    parser = argparse.ArgumentParser(description="Writes the bill of materials of a build (CycloneDX 1.6).")
    parser.add_argument("--version", required=True, help="version of Weft")
    parser.add_argument("--commit-header", required=True, metavar="FILE", help="header with the commit")
    parser.add_argument("--compiler", required=True, metavar="VERSION", help="version of g++")
    parser.add_argument("--spec", required=True, metavar="FILE", help="requirement of the MPI Forum's API description")
    parser.add_argument("--nvcc", metavar="VERSION", help="version of nvcc, if it has compiled the GPU kernels")
    parser.add_argument("--kernels", metavar="FOLDER", help="folder of the packages that compile GPU kernels")
    parser.add_argument(
        "--bundled", metavar="FOLDER", help="folder of the Python packages that are copied into the prefix"
    )
    parser.add_argument("target", help="file to write")
    arguments = parser.parse_args()
    with open(arguments.commit_header, encoding="utf-8") as file:
        (commit,) = re.findall(r'WEFT_COMMIT "(.*)"', file.read())
    with open(arguments.spec, encoding="utf-8") as file:
        ((name, version),) = re.findall(r"^([\w-]+)==([\w.]+)", file.read(), re.MULTILINE)
    components = [component(name, version, pypi(name, version), "MIT", GENERATED)]
    if arguments.nvcc:
        purl = "pkg:generic/cuda-nvcc@" + arguments.nvcc
        components.append(component("cuda-nvcc", arguments.nvcc, purl, "NVIDIA Proprietary Software", KERNELS))
    components += [each for each in packages(arguments.kernels, KERNELS) if re.search("nvrtc|runtime", each["name"])]
    components += packages(arguments.bundled, "copied into the prefix, for the command line")
    with open(arguments.target, "w", encoding="utf-8") as file:
        json.dump(bill(arguments.version, commit, arguments.compiler, components), file, indent=2)
        file.write("\n")


if __name__ == "__main__":
    main()
