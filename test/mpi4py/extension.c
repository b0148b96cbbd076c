/* SPDX-License-Identifier: BSD-3-Clause */
/* An extension module of Python that calls MPI, as mpi4jax and petsc4py: it gets communicators from mpi4py,
   by its interface for C or as numbers. */
#define PY_SSIZE_T_CLEAN
#include <Python.h>
#include <mpi4py/mpi4py.h>
#include <weft.h>

static PyObject* size_of(MPI_Comm comm) {
  char message[2000];
  int size;
  if (MPI_Comm_size(comm, &size) == MPI_SUCCESS) return PyLong_FromLong(size);
  MPIX_Last_error_message(message, sizeof message, NULL);
  PyErr_SetString(PyExc_RuntimeError, message);
  return NULL;
}

static PyObject* size_of_object(PyObject* self, PyObject* object) {
  (void)self;
  if (import_mpi4py() < 0) return NULL;
  const MPI_Comm* comm = PyMPIComm_Get(object);
  return comm == NULL ? NULL : size_of(*comm);
}

static PyObject* size_of_number(PyObject* self, PyObject* number) {
  (void)self;
  const size_t handle = PyLong_AsSize_t(number);
  return PyErr_Occurred() ? NULL : size_of((MPI_Comm)handle);
}

static PyMethodDef methods[] = {{"size_of_object", size_of_object, METH_O, "By the interface for C."},
                                {"size_of_number", size_of_number, METH_O, "By a number."},
                                {NULL, NULL, 0, NULL}};
static struct PyModuleDef module = {
    PyModuleDef_HEAD_INIT, "extension", NULL, -1, methods, NULL, NULL, NULL, NULL};

PyMODINIT_FUNC PyInit_extension(void) { return PyModule_Create(&module); }
