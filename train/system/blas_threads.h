#pragma once

namespace tapestry {

/// OpenBLAS starts a thread for each core while it is loaded, of which this program makes no use
/// and which hang, and the program with them at its end, where address space is short. To be called
/// first: starts the program anew with those threads forbidden, if it uses OpenBLAS and the user
/// has not set OPENBLAS_NUM_THREADS; returns otherwise, and if that fails.
void restart_without_blas_threads(char** argv);

}  // namespace tapestry
