#include "train/run_program.h"

int main(int argc, char** argv) { return tapestry::run_program(argc, argv); }
