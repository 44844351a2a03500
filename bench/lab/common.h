/* Shared by upstream.c and loadgen.c: what the scripted model says, so that one can check the other.
 *
 * A model's name is its script: "fake-c256-d20-t2-r16-ts" means 256 chunks, 20 ms apart, as the arguments of
 * two tool calls, after 16 reasoning chunks, each text chunk with the time when it was sent. */
#ifndef COMMON_H
#define COMMON_H
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

/* One token per chunk, in turn; escapes and multi-byte characters on purpose. */
#define TOKENS 16
static const char* const TOKEN[TOKENS] = {" the",
                                          " quick",
                                          " brown",
                                          " fox",
                                          " jumps",
                                          " over",
                                          "\n",
                                          " \"lazy\"",
                                          " dog",
                                          " caf\xc3\xa9",
                                          " \xe6\x97\xa5\xe6\x9c\xac",
                                          " \xf0\x9f\x99\x82",
                                          " a\\b",
                                          "\t{}",
                                          " end",
                                          "."};

typedef struct {
  int chunks;    /* c: chunks of text, or of arguments, split over the tool calls */
  int delay;     /* d: milliseconds between chunks; 0 sends all at once */
  int tools;     /* t: function calls instead of text */
  int custom;    /* k: calls of custom tools instead of text */
  int reasoning; /* r: chunks of reasoning before the text */
  int stamped;   /* ts: every text chunk carries the time when it was sent */
} Spec;

static int spec_parse(const char* name, size_t length, Spec* spec) {
  char copy[160];
  if (length >= sizeof copy) length = sizeof copy - 1;
  memcpy(copy, name, length);
  copy[length] = 0;
  char* at = strstr(copy, "fake-");
  if (!at) return 0;
  *spec = (Spec){.chunks = 64};
  char *rest = at + 5, *field;
  while ((field = strsep(&rest, "-"))) {
    int value = atoi(field + 1);
    if (!strcmp(field, "ts")) spec->stamped = 1;
    else if (*field == 'c') spec->chunks = value;
    else if (*field == 'd') spec->delay = value;
    else if (*field == 't') spec->tools = value;
    else if (*field == 'k') spec->custom = value;
    else if (*field == 'r') spec->reasoning = value;
  }
  return 1;
}

static inline int spec_calls(const Spec* spec) { return spec->tools + spec->custom; }

static inline uint64_t now_us(void) {
  struct timespec t;
  clock_gettime(CLOCK_MONOTONIC, &t);
  return (uint64_t)t.tv_sec * 1000000u + t.tv_nsec / 1000;
}

/* Each call has at least an opening and a closing piece. */
static inline int argument_pieces(const Spec* spec) {
  int pieces = spec->chunks / spec_calls(spec);
  return pieces < 2 ? 2 : pieces;
}

/* One piece of a call's arguments; all pieces together are a JSON object with one string. */
static inline void argument_piece(char* out, const Spec* spec, int number, int pieces) {
  if (number == 0) strcpy(out, spec->custom ? "{\"input\":\"" : "{\"text\":\"");
  else if (number == pieces - 1) strcpy(out, "\"}");
  else sprintf(out, "word%d ", number % 10);
}
#endif
