#include "tests/fake_cuda/probe/fake_cuda_probe.h"

int main(int count, char** arguments) {
  return fake_cuda_probe(count, arguments);
}
