// SPDX-License-Identifier: BSD-3-Clause
// The command line of Tapestry in a user's program.
#include <tapestry/program.h>

int main(int argc, char** argv) { return tapestry::run_program(argc, argv); }
