#pragma once

#include <sqlite3.h>

#include <cstdint>
#include <string>

namespace pto::daemon {

// A prepared SQL statement. What goes wrong is seen at its end. Not thread-safe.
class Statement {
 public:
  Statement(sqlite3* database, const char* sql) {
    result_ = sqlite3_prepare_v2(database, sql, -1, &statement_, nullptr);
  }
  ~Statement() { sqlite3_finalize(statement_); }
  Statement(const Statement&) = delete;
  Statement& operator=(const Statement&) = delete;

  // Parameters count from 1. The text must stay until the statement has run.
  void Bind(int parameter, int64_t value) { sqlite3_bind_int64(statement_, parameter, value); }
  void Bind(int parameter, const std::string& text) {
    sqlite3_bind_text(statement_, parameter, text.data(), static_cast<int>(text.size()),
                      SQLITE_STATIC);
  }

  // Returns whether there is another row.
  bool Step() {
    if (!ok()) return false;
    const int result = sqlite3_step(statement_);
    if (result == SQLITE_ROW) return true;
    result_ = result == SQLITE_DONE ? SQLITE_OK : result;
    return false;
  }
  // Runs a statement without rows, which can be bound and run again then. Returns ok().
  bool Run() {
    while (Step()) {
    }
    sqlite3_reset(statement_);
    return ok();
  }
  bool ok() const { return result_ == SQLITE_OK; }

  // Columns of the row, from 0.
  int64_t Integer(int column) const { return sqlite3_column_int64(statement_, column); }
  double Real(int column) const { return sqlite3_column_double(statement_, column); }
  std::string Text(int column) const {
    const auto* const text = reinterpret_cast<const char*>(sqlite3_column_text(statement_, column));
    return text == nullptr
               ? ""
               : std::string(text, static_cast<size_t>(sqlite3_column_bytes(statement_, column)));
  }

 private:
  sqlite3_stmt* statement_ = nullptr;
  int result_ = SQLITE_OK;
};

}  // namespace pto::daemon
