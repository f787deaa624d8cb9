/* csv.h - parses records of CSV and TSV: the reference, byte by byte, and vector code, 64 bytes at a time. */
#pragma once

#include "data/table/table_parts.h"

typedef enum tri_csv_end {
    TRI_CSV_GOOD, /* its fields were added to the piece, *next is the start of the next one */
    TRI_CSV_BAD,  /* recorded as bad, *next likewise */
    TRI_CSV_CUT /* the window ends first, *next is the record's start; or, with piece->skipping set, the record is
                   recorded as bad, and *next is the window's end */
} tri_csv_end;

/* Parses the record at text[row]. The only function that diagnoses faults. */
tri_csv_end tri__csv_record(const tri_table *table, const tri_window *window, size_t row, tri_table_piece *piece,
                            size_t *next);

/* Parses the records that start in text[from] up to piece->end. All versions give the same result. */
typedef void tri_csv_scan(const tri_table *table, const tri_window *window, size_t from, tri_table_piece *piece);
tri_csv_scan tri__csv_scan_plain;
#if defined(__aarch64__)
tri_csv_scan tri__csv_scan_neon;
#elif defined(__x86_64__)
tri_csv_scan tri__csv_scan_sse2, tri__csv_scan_avx2;
#endif
