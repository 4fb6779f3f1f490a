#include "ddp/launcher_report.h"

#include <exception>
#include <iostream>

int train_example();  // train.cpp; a file of its own, because executables hold no torch file

int main() {
  try {
    return train_example();
  } catch (const std::exception& error) {
    lockstep::report_to_launcher(error.what());
    std::cerr << error.what() << "\n";
    return 1;
  }
}
