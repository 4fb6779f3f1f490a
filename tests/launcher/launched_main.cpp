#include "tests/launcher/launched.h"

int main(int argument_count, char** arguments) {
  return launched(argument_count, arguments);
}
