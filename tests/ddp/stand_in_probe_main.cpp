#include "tests/ddp/stand_in_probe.h"

int main(int count, char** arguments) {
  return stand_in_probe(count, arguments);
}
