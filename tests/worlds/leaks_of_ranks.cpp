// A rank that exits in the middle of its program leaves what it holds. LeakSanitizer would give it
// another exit status, which is what these tests judge.
extern "C" __attribute__((visibility("default"))) const char* __asan_default_options() {
  return "detect_leaks=0";
}
