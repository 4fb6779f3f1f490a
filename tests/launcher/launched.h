#pragma once

// The program that launchers start in tests: see launched.cpp.
int launched(int argument_count, char** arguments);
