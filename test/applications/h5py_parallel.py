# SPDX-License-Identifier: BSD-3-Clause
# Parallel datasets of h5py, of all ranks: rows dealt in turn and blocks, independent and collective, filtered chunks,
# datasets that grow, atomic mode. Each rank then reads the whole file alone and compares.
import os

import h5py
import numpy
from mpi4py import MPI

comm = MPI.COMM_WORLD
rank, size = comm.rank, comm.size
name = comm.bcast("/tmp/weft_h5py_%d.h5" % os.getpid())
ROWS, COLUMNS = 96, 1000  # rows: a multiple of the numbers of ranks


def values(first, rows, columns):
    return numpy.arange(first * columns, (first + rows) * columns, dtype="f8").reshape(rows, columns)


def write(file, collective):
    """Writes datasets; returns their names and values."""
    expected = {}
    prefix = "collective" if collective else "independent"
    own = ROWS // size

    def store(dataset, where, data):
        if collective:
            with dataset.collective:
                dataset[where] = data
        else:
            dataset[where] = data

    every = values(0, ROWS, COLUMNS)
    dataset = file.create_dataset(prefix + "/interleaved", (ROWS, COLUMNS), "f8")
    store(dataset, slice(rank, None, size), every[rank::size])
    expected[dataset.name] = every
    dataset = file.create_dataset(prefix + "/columns", (ROWS, COLUMNS * size), "i4")
    whole = values(0, ROWS, COLUMNS * size).astype("i4")
    part = slice(rank * COLUMNS, (rank + 1) * COLUMNS)
    store(dataset, (slice(None), part), whole[:, part])
    expected[dataset.name] = whole
    dataset = file.create_dataset(prefix + "/grown", (0, COLUMNS), "f8", maxshape=(None, COLUMNS), chunks=(7, 130))
    for step in range(3):
        dataset.resize((step + 1) * ROWS, axis=0)
        first = rank * own
        store(dataset, slice(step * ROWS + first, step * ROWS + first + own), step + every[first : first + own])
    expected[dataset.name] = numpy.concatenate([step + every for step in range(3)])
    if collective:  # HDF5 writes filtered chunks collectively only
        filters = {"chunks": (10, 300), "shuffle": True, "fletcher32": True}
        dataset = file.create_dataset("filtered", (ROWS, COLUMNS), "f8", **filters)
        store(dataset, slice(rank, None, size), every[rank::size])
        expected[dataset.name] = every
    dataset = file[prefix + "/interleaved"]
    comm.Barrier()
    if collective:
        with dataset.collective:
            got = dataset[rank::size]
    else:
        got = dataset[rank::size]
    assert numpy.array_equal(got, every[rank::size]), dataset.name
    return expected


expected = {}
for atomic in (False, True):
    with h5py.File(name, "w", driver="mpio", comm=comm) as file:
        file.atomic = atomic
        assert file.atomic == atomic and file.driver == "mpio"
        for collective in (False, True):
            expected.update(write(file, collective))
        file.attrs["ranks"] = size
        file.flush()
    comm.Barrier()
    with h5py.File(name, "r") as file:
        assert file.attrs["ranks"] == size
        for dataset, data in expected.items():
            assert numpy.array_equal(file[dataset][...], data), (atomic, dataset)
    comm.Barrier()
try:
    h5py.File(os.path.join("/nonexistent", "file"), "w", driver="mpio", comm=comm)
    raise AssertionError("a file in a folder that does not exist")
except OSError:
    pass
if rank == 0:
    os.remove(name)
    versions = (h5py.__version__, h5py.version.hdf5_version)
    print("h5py %s, HDF5 %s, %d ranks: %d datasets are right" % (*versions, size, len(expected)))
