// The program of the guide with a model of its own. Its runs are those of the other blocks.
#define main guide_program
#include "block_6.inc"
#undef main
