#include "harness/verdict/finding_json.h"

#include "harness/base/characters.h"

namespace lockstep {

namespace {

Json json_of(const Table::Column& column) {
  return {{"heading", one_line(column.heading)},
          {"holds", name_of(column.holds)},
          {"rank", column.rank}};
}

Json json_of(const Table::Row& row) {
  Json texts = Json::array(), numbers = Json::array(), wrong = Json::array();
  for (size_t column = 0; column < row.cells.size(); ++column) {
    const auto& cell = row.cells[column];
    texts.push_back(one_line(cell.text));
    numbers.push_back(cell.number ? Json(*cell.number) : Json());
    if (cell.is_wrong) wrong.push_back(column);
  }
  return {{"cells", texts},
          {"numbers", numbers},
          {"wrong", wrong},
          {"mark", name_of(row.mark)},
          {"remark", one_line(row.remark)},
          {"rank", row.rank}};
}

Json json_of(const Table& table) {
  Json json{{"columns", Json::array()}, {"rows", Json::array()}};
  for (const auto& column : table.columns) json["columns"].push_back(json_of(column));
  for (const auto& row : table.rows) json["rows"].push_back(json_of(row));
  json["heading_of_remarks"] = one_line(table.heading_of_remarks);
  return json;
}

}  // namespace

Json json_of(const FindingPlace& place) {
  return place.at ? Json{{"step", place.at->step},
                         {"phase", one_line(place.at->phase)},
                         {"record", one_line(place.record)},
                         {"index", place.index}}
                  : Json();
}

Json json_of(const Details& details) {
  Json all = Json::array();
  for (const auto& detail : details)
    if (const auto* table = std::get_if<Table>(&detail))
      all.push_back(json_of(*table));
    else if (const auto* cause = std::get_if<Cause>(&detail))
      all.push_back({{"cause", cause->text}});
    else
      all.push_back(std::get<std::string>(detail));
  return all;
}

}  // namespace lockstep
