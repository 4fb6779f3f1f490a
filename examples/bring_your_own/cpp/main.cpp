#include "subjects.h"

int main(int argc, char** argv) {
  return lockstep::main(argc, argv,
                        {average_after_backward(), uneven_last_bucket(), strided_sampler()});
}
