#include "tests/ddp/nccl_probe.h"

int main(int count, char** arguments) {
  return nccl_probe(count, arguments);
}
