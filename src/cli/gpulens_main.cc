#include "cli/commands.h"

int main(int argc, char** argv) { return gpulens::RunCommandLine(argc, argv); }
