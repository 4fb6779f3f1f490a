// Comma-separated values, as RFC 4180 has them: fields in quotes may hold commas, line ends, and
// quotes, which are doubled. A byte-order mark in front is skipped.
#pragma once

#include <string>
#include <vector>

// The rows of `path`, its header included. Throws std::runtime_error with the line where a quote is
// never closed, is followed by text, or a row has another number of fields than the header.
std::vector<std::vector<std::string>> rows_of_csv(const std::string& path);

// `field` as it stands in such a file.
std::string csv_field(const std::string& field);
