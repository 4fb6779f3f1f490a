#include <string>

void write_checkpoints(const std::string& folder);  // a library: executables hold no torch file

int main(int count, char** arguments) {
  if (count != 2) return 2;
  write_checkpoints(arguments[1]);
}
