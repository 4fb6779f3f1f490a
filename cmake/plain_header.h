// The headers that nearly every file of the harness without torch includes; precompiled once.
#pragma once

#include <nlohmann/json.hpp>
#include <rapidcheck.h>

#include <algorithm>
#include <chrono>
#include <filesystem>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>
