#include "cli/whole_program.h"

int main(int argc, char** argv) {
  return lockstep::whole_program(argc, argv);
}
