// The command line of Tapestry in a program of one's own.
#include <tapestry/program.h>

int main(int argc, char** argv) { return tapestry::run_program(argc, argv); }
