#include "reports/findings/file.h"

#include <limits>

namespace lockstep::reports {

namespace {

Table::Column column_at(const At& at) {
  using Holds = Table::Holds;
  return {
      .heading = at["heading"].line(),
      .holds = at["holds"].one_of({Holds::name, Holds::reference, Holds::value, Holds::measure}),
      .rank = at["rank"].number(-1)};
}

Table::Row row_at(const At& at, size_t columns) {
  using Mark = Table::Mark;
  Table::Row row{.cells = {},
                 .mark = at["mark"].one_of({Mark::none, Mark::wrong, Mark::first}),
                 .remark = at["remark"].line(),
                 .rank = at["rank"].number(-1)};
  const auto texts = at["cells"].elements(), numbers = at["numbers"].elements();
  if (texts.size() != columns || numbers.size() != columns)
    at.wrong("has not as many cells and numbers as there are columns");
  for (size_t column = 0; column < columns; ++column) {
    row.cells.push_back({.text = texts[column].line()});
    if (!numbers[column].is_null()) row.cells.back().number = numbers[column].real();
  }
  for (const auto& column : at["wrong"].elements())
    row.cells.at(static_cast<size_t>(column.whole(0, static_cast<int64_t>(columns) - 1))).is_wrong =
        true;
  return row;
}

Table table_at(const At& at) {
  Table table;
  for (const auto& column : at["columns"].elements()) table.columns.push_back(column_at(column));
  for (const auto& row : at["rows"].elements())
    table.rows.push_back(row_at(row, table.columns.size()));
  table.heading_of_remarks = at["heading_of_remarks"].line();
  return table;
}

FindingPlace place_at(const At& at) {
  FindingPlace place({at["step"].number(0), at["phase"].line()}, at["record"].line());
  for (const auto& one : at["index"].elements())
    place.index.push_back(one.whole(0, std::numeric_limits<int64_t>::max()));
  return place;
}

Finding finding_at(const At& at) {
  Finding finding{at["rule"].line(), at["pattern"].line(), at["where"].line(), at["text"].text()};
  if (at.has("diagnosis") || at.has("details")) {
    finding.diagnosis = at["diagnosis"].text();
    if (const auto place = at["place"]; !place.is_null()) finding.where = place_at(place);
    for (const auto& detail : at["details"].elements())
      if (detail.json().is_string())
        finding.details.push_back(detail.text());
      else if (detail.has("cause"))
        finding.details.push_back(Cause{detail["cause"].text()});
      else
        finding.details.push_back(table_at(detail));
  }
  if (at.has("cause")) finding.cause = at["cause"].line();
  if (at.has("limit")) finding.limit = at["limit"].line();
  keep_first_line(finding);
  return finding;
}

}  // namespace

Findings findings_of(const At& at) {
  Findings findings;
  for (const auto& one : at.elements()) findings.push_back(finding_at(one));
  return findings;
}

}  // namespace lockstep::reports
