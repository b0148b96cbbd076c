/* SPDX-License-Identifier: BSD-3-Clause
 * Takes Python's lock again.
 */
#ifndef WEFT_PYTHON_TAKE_LOCK_H
#define WEFT_PYTHON_TAKE_LOCK_H
#ifdef __cplusplus
extern "C" {
#endif

struct PyThreadState;

/* PyEval_RestoreThread(). A thread that needs the lock while Python ends does not return, as from Python 3.14
 * on: earlier versions call pthread_exit(), and without the lock no object can be destroyed.
 */
void weft_python_take_lock(struct PyThreadState* state);

#ifdef __cplusplus
}
#endif
#endif
