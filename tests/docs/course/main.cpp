// One step of the course: ./lockstep launch -n 2 build/release/tests/docs/course_steps 4
#include "tests/docs/course/steps.h"

#include <cstdlib>
#include <exception>
#include <iostream>

int main(int count, char** arguments) {
  try {
    lockstep::course::run_step(count > 1 ? std::atoi(arguments[1]) : 0);
  } catch (const std::exception& error) {
    std::cerr << error.what() << "\n";
    return 1;
  }
}
