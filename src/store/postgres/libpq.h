// PostgreSQL's client library as a table of the few functions that are needed, found by dlopen. The
// declarations are ours, after libpq's documentation; none of its headers is used.
#pragma once

#include <gpulens/status.h>

namespace gpulens::postgres {

struct LibConnection;  // libpq's own
struct LibResult;
struct LibOption;

using NoticeProcessor = void (*)(void* own, const char* message);

// X(member, symbol, result, parameters)
#define GPULENS_LIBPQ_CALLS(X)                                                                               \
  X(parse, "PQconninfoParse", LibOption*, (const char* url, char** error))                                   \
  X(parse_free, "PQconninfoFree", void, (LibOption*))                                                        \
  X(memory_free, "PQfreemem", void, (void*))                                                                 \
  X(connect, "PQconnectdbParams", LibConnection*, (const char* const* keys, const char* const* values, int)) \
  X(finish, "PQfinish", void, (LibConnection*))                                                              \
  X(status, "PQstatus", int, (const LibConnection*))                                                         \
  X(error, "PQerrorMessage", const char*, (const LibConnection*))                                            \
  X(on_notice, "PQsetNoticeProcessor", NoticeProcessor, (LibConnection*, NoticeProcessor, void*))            \
  X(run, "PQexecParams", LibResult*,                                                                         \
    (LibConnection*, const char* sql, int count, const unsigned* types, const char* const* values,           \
     const int* lengths, const int* formats, int result_format))                                             \
  X(result_status, "PQresultStatus", int, (const LibResult*))                                                \
  X(result_field, "PQresultErrorField", const char*, (const LibResult*, int field))                          \
  X(rows, "PQntuples", int, (const LibResult*))                                                              \
  X(columns, "PQnfields", int, (const LibResult*))                                                           \
  X(column_name, "PQfname", const char*, (const LibResult*, int column))                                     \
  X(is_null, "PQgetisnull", int, (const LibResult*, int row, int column))                                    \
  X(value, "PQgetvalue", const char*, (const LibResult*, int row, int column))                               \
  X(length, "PQgetlength", int, (const LibResult*, int row, int column))                                     \
  X(changes, "PQcmdTuples", const char*, (LibResult*))                                                       \
  X(clear, "PQclear", void, (LibResult*))

struct Libpq {
#define GPULENS_LIBPQ_MEMBER(member, symbol, result, parameters) result(*member) parameters = nullptr;
  GPULENS_LIBPQ_CALLS(GPULENS_LIBPQ_MEMBER)
#undef GPULENS_LIBPQ_MEMBER
};

// kUnavailable: there is no libpq.so.5, or it lacks a function, which is named. It stays open. Thread-safe.
Result<const Libpq*> Load();

}  // namespace gpulens::postgres
