/* A load generator for Responses gateways, over HTTP (server-sent events) or WebSocket. One thread, epoll.
 *
 * It checks every stream: the events are numbered without a gap, the text (or the arguments, and the
 * reasoning) is what the scripted model says, and there is one terminal event, at the end.
 *
 *   loadgen -p PORT -b BODY_FILE -s SPEC [-a PATH] [-w] [-n STREAMS] [-r REQUESTS | -T SECONDS] [-R RAMP_MS]
 *           [-W] [-A DELTAS] [-M DELTAS,..] [-P PID,..] [-X TIMEOUT_S]
 *   -w  use WebSocket; the body is a `response.create` message
 *   -R  spread the beginnings over this many ms; -W measures only while all streams are open
 *   -A  hang up after so many deltas; such a stream counts as complete
 *   -M  also report the CPU time at the moments when so many deltas have arrived
 *   -P  the processes whose CPU time and memory are measured
 * It prints one JSON object. */
#define _GNU_SOURCE
#include <arpa/inet.h>
#include <errno.h>
#include <netinet/tcp.h>
#include <signal.h>
#include <strings.h>
#include <sys/epoll.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <unistd.h>

#include "common.h"

typedef struct {
  uint32_t* values;
  size_t count, room;
} Samples;

typedef struct {
  char* data;
  size_t length, room;
} Buffer;

enum State { IDLE, CONNECTING, SENDING, HEAD, BODY };

typedef struct {
  int fd, is_open; /* is_open: the WebSocket handshake is done */
  enum State state;
  size_t sent;
  Buffer in, text;        /* bytes of the connection; decoded body that is not read yet */
  int status, is_chunked; /* of the HTTP answer */
  long left, chunk_left;  /* bytes of the body, of the chunk */
  int chunk_state;        /* 0 size, 1 data, 2 line end after data, 3 trailer */
  char name[64];          /* of the event that is being read */
  uint64_t begin, first, first_text;
  long next_number, tokens, thoughts, deltas, calls;
  size_t offset, thought_offset, arguments; /* inside of the current token; of all arguments */
  int is_bad, terminals, has_ended;
} Stream;

static int poller, streams = 1, websocket, ramp_ms, windowed, timeout_s = 60, pids[64], pid_count;
static long total = 1, begun, finished, abort_after, marks[16];
static int mark_count, marked;
static double seconds, mark_cpu[16];
static const char* path = "/v1/responses";
static Spec spec;
static Buffer request, handshake;
static struct sockaddr_in address;
static Samples first_events, first_texts, totals, lags;
static long good, bad, deltas, window_deltas;
static int active, in_window;
static char first_error[300];
static char* expected_arguments;
static size_t expected_length;
static uint64_t start;

static void add(Samples* s, uint64_t value) {
  if (s->count == s->room) s->values = realloc(s->values, (s->room = s->room * 2 + 1024) * sizeof *s->values);
  s->values[s->count++] = value > UINT32_MAX ? UINT32_MAX : value;
}

static void append(Buffer* b, const char* data, size_t length) {
  if (b->length + length + 1 > b->room) b->data = realloc(b->data, b->room = (b->length + length + 1) * 2);
  memcpy(b->data + b->length, data, length);
  b->length += length;
  b->data[b->length] = 0;
}

static void consume(Buffer* b, size_t length) {
  memmove(b->data, b->data + length, b->length - length);
  b->length -= length;
}

/* What the processes under test use */

static double cpu_ms(void) {
  double sum = 0;
  for (int i = 0; i < pid_count; i++) {
    clockid_t clock;
    struct timespec t;
    if (!clock_getcpuclockid(pids[i], &clock) && !clock_gettime(clock, &t))
      sum += t.tv_sec * 1e3 + t.tv_nsec / 1e6;
  }
  return sum;
}

static long memory_kb(void) {
  long sum = 0;
  for (int i = 0; i < pid_count; i++) {
    char name[64], line[256];
    snprintf(name, sizeof name, "/proc/%d/smaps_rollup", pids[i]);
    FILE* file = fopen(name, "r");
    while (file && fgets(line, sizeof line, file))
      if (!strncmp(line, "Rss:", 4)) sum += atol(line + 4);
    if (file) fclose(file);
  }
  return sum;
}

/* Checks */

static void fail(Stream* c, const char* what, const char* detail, size_t length) {
  if (c->is_bad) return;
  c->is_bad = 1;
  if (first_error[0]) return;
  snprintf(first_error, sizeof first_error, "%s: %.*s", what, (int)(length > 200 ? 200 : length), detail);
  for (char* p = first_error; *p; p++)
    if (*p == '"' || *p == '\\' || (unsigned char)*p < 32 || (unsigned char)*p > 126) *p = '\'';
}

/* Return what follows `"key":` at the first place, or NULL. */
static const char* value_of(const char* json, size_t length, const char* key) {
  size_t size = strlen(key);
  for (const char *p = json, *end = json + length; (p = memmem(p, end - p, key, size)); p += size) {
    const char* q = p + size;
    while (q < end && *q == ' ') q++;
    if (q < end && *q == ':') {
      do q++;
      while (q < end && *q == ' ');
      return q;
    }
  }
  return NULL;
}

static unsigned hex4(const char* p) {
  char digits[5] = {p[0], p[1], p[2], p[3], 0};
  return strtoul(digits, NULL, 16);
}

static char* utf8(char* out, unsigned code) {
  if (code < 0x80) *out++ = code;
  else if (code < 0x800) *out++ = 0xC0 | code >> 6, *out++ = 0x80 | (code & 63);
  else {
    if (code < 0x10000) *out++ = 0xE0 | code >> 12;
    else *out++ = 0xF0 | code >> 18, *out++ = 0x80 | (code >> 12 & 63);
    *out++ = 0x80 | (code >> 6 & 63), *out++ = 0x80 | (code & 63);
  }
  return out;
}

/* Decode the JSON string that begins at its quote; return its length, or -1. */
static long unescape(const char* p, const char* end, char* out, size_t room) {
  static const char plain[] = "\"\\/bfnrt", meaning[] = "\"\\/\b\f\n\r\t";
  char *begin = out, *limit = out + room - 8;
  for (p++; p < end && *p != '"' && out < limit;) {
    if (*p != '\\') {
      *out++ = *p++;
    } else if (p[1] == 'u') {
      unsigned code = hex4(p + 2);
      p += 6;
      if (code >= 0xD800 && code < 0xDC00 && p[0] == '\\' && p[1] == 'u') {
        code = 0x10000 + ((code - 0xD800) << 10) + (hex4(p + 2) - 0xDC00);
        p += 6;
      }
      out = utf8(out, code);
    } else {
      const char* at = strchr(plain, p[1]);
      *out++ = at ? meaning[at - plain] : p[1];
      p += 2;
    }
  }
  return p < end ? out - begin : -1;
}

/* Compare text with the model's tokens, from where the stream is. */
static void compare(Stream* c, const char* text, size_t length, long* tokens, size_t* offset, long limit) {
  while (length) {
    const char* token = TOKEN[*tokens % TOKENS] + *offset;
    size_t size = strlen(token) < length ? strlen(token) : length;
    if (*tokens >= limit || memcmp(token, text, size)) return fail(c, "text differs", text, length);
    text += size, length -= size, *offset += size;
    if (!token[size]) ++*tokens, *offset = 0;
  }
}

/* `[000012@0000001133469052]`, possibly several in one delta */
static void compare_stamped(Stream* c, const char* text, size_t length, uint64_t now) {
  for (; length >= 25; text += 25, length -= 25) {
    if (text[0] != '[' || atol(text + 1) != c->tokens) return fail(c, "text differs", text, length);
    uint64_t sent = strtoull(text + 8, NULL, 10);
    if (!windowed || in_window) add(&lags, now > sent ? now - sent : 0);
    c->tokens++;
  }
  if (length) fail(c, "text differs", text, length);
}

static void on_delta(Stream* c, const char* type, const char* data, size_t length, uint64_t now) {
  static char text[1 << 20];
  const char* value = value_of(data, length, "\"delta\"");
  long size = value ? unescape(value, data + length, text, sizeof text) : -1;
  if (size < 0) return fail(c, "no delta", data, length);
  if (!size) return;
  deltas++, c->deltas++;
  if (in_window) window_deltas++;
  while (marked < mark_count && deltas >= marks[marked]) mark_cpu[marked++] = cpu_ms();
  if (strstr(type, "reasoning"))
    return compare(c, text, size, &c->thoughts, &c->thought_offset, spec.reasoning);
  if (!c->first_text) c->first_text = now;
  if (spec_calls(&spec)) {
    if (c->arguments + size > expected_length || memcmp(expected_arguments + c->arguments, text, size))
      return fail(c, "arguments differ", text, size);
    c->arguments += size;
  } else if (spec.stamped) compare_stamped(c, text, size, now);
  else compare(c, text, size, &c->tokens, &c->offset, spec.chunks);
}

static void on_event(Stream* c, const char* data, size_t length, uint64_t now) {
  char type[64] = "";
  if (length >= 6 && !memcmp(data, "[DONE]", 6)) return;
  if (!c->first) c->first = now;
  if (c->terminals) fail(c, "an event after the terminal event", data, length);
  const char* number = value_of(data, length, "\"sequence_number\"");
  if (!number || atol(number) != c->next_number++) fail(c, "out of order", data, length);
  if (c->name[0]) strcpy(type, c->name);
  else if ((number = value_of(data, length, "\"type\"")))
    snprintf(type, sizeof type, "%.*s", (int)strcspn(number + 1, "\""), number + 1);
  if (strstr(type, ".delta")) on_delta(c, type, data, length, now);
  else if (!strcmp(type, "response.output_item.added"))
    c->calls += memmem(data, length, "_call\"", 6) != NULL;
  else if (!strcmp(type, "response.completed")) c->terminals++;
  else if (!strcmp(type, "response.failed") || !strcmp(type, "response.incomplete") || !strcmp(type, "error"))
    fail(c, "failed", data, length);
}

static void check_end(Stream* c) {
  if (abort_after && c->deltas >= abort_after) return;
  if (c->terminals != 1) fail(c, "no terminal event", "", 0);
  if (c->thoughts != spec.reasoning) fail(c, "reasoning is missing", "", 0);
  if (!spec_calls(&spec)) {
    if (c->tokens != spec.chunks) fail(c, "text is missing", "", 0);
  } else if (c->arguments != expected_length) fail(c, "arguments are missing", "", 0);
  else if (c->calls != spec_calls(&spec)) fail(c, "not one item per call", "", 0);
}

/* Frames */

/* Read the complete server-sent events in the buffer. */
static void read_events(Stream* c, uint64_t now) {
  char *at = c->text.data, *end = at + c->text.length, *blank;
  while (at < end && (blank = memmem(at, end - at, "\n\n", 2))) {
    const char* data = NULL;
    size_t length = 0;
    c->name[0] = 0;
    for (char* line = at; line < blank;) {
      char* stop = memchr(line, '\n', blank + 1 - line);
      if (!strncmp(line, "event: ", 7))
        snprintf(c->name, sizeof c->name, "%.*s", (int)(stop - line - 7), line + 7);
      if (!strncmp(line, "data: ", 6)) data = line + 6, length = stop - line - 6;
      line = stop + 1;
    }
    if (data) on_event(c, data, length, now);
    at = blank + 2;
  }
  consume(&c->text, at - c->text.data);
}

static void read_chunked(Stream* c, const char* p, size_t length) {
  for (const char* end = p + length; p < end && !c->has_ended;) {
    if (c->chunk_state == 1) {
      size_t size = end - p < c->chunk_left ? (size_t)(end - p) : (size_t)c->chunk_left;
      append(&c->text, p, size);
      p += size;
      if (!(c->chunk_left -= size)) c->chunk_state = 2;
      continue;
    }
    char digit = *p++;
    if (digit == '\n') {
      if (c->chunk_state == 3) c->has_ended = 1;
      c->chunk_state = c->chunk_state == 2 ? 0 : c->chunk_left ? 1 : 3;
    } else if (digit != '\r' && c->chunk_state == 0) {
      c->chunk_left = c->chunk_left * 16 + (digit <= '9' ? digit - '0' : (digit | 32) - 'a' + 10);
    }
  }
}

static void read_body(Stream* c, const char* data, size_t length, uint64_t now) {
  if (c->is_chunked) {
    read_chunked(c, data, length);
  } else {
    if (c->left >= 0 && (long)length > c->left) length = c->left;
    append(&c->text, data, length);
    if (c->left >= 0 && !(c->left -= length)) c->has_ended = 1;
  }
  if (c->status == 200) read_events(c, now);
}

static int write_all(int fd, const char* data, size_t length) {
  return write(fd, data, length) == (ssize_t)length;
}

/* Read the complete WebSocket frames in the buffer; each text frame is an event. */
static void read_frames(Stream* c, uint64_t now) {
  size_t at = 0;
  while (c->in.length - at >= 2 && !c->has_ended) {
    unsigned char* f = (unsigned char*)c->in.data + at;
    size_t head = 2, size = f[1] & 127;
    if (size >= 126) {
      int digits = size == 126 ? 2 : 8;
      if (c->in.length - at < (size_t)(2 + digits)) break;
      size = 0;
      for (int i = 0; i < digits; i++) size = size << 8 | f[2 + i];
      head += digits;
    }
    if (c->in.length - at < head + size) break;
    char* payload = (char*)f + head;
    if ((f[0] & 15) == 9) { /* a ping; the mask of zeros leaves the payload as it is */
      char pong[132] = {(char)0x8A, (char)(0x80 | size)};
      memcpy(pong + 6, payload, size);
      if (!write_all(c->fd, pong, 6 + size)) fail(c, "no pong", "", 0);
    } else if (f[0] != 0x81) {
      fail(c, "unexpected frame", payload, size);
      c->has_ended = 1;
    } else {
      on_event(c, payload, size, now);
      if (c->terminals || c->is_bad) c->has_ended = 1;
    }
    at += head + size;
  }
  consume(&c->in, at);
}

/* Connections */

static void begin(Stream* c);

static int has_more(void) { return seconds > 0 ? now_us() - start < seconds * 1e6 : begun < total; }

static void hang_up(Stream* c) {
  if (c->fd >= 0) close(c->fd);
  c->fd = -1;
  c->state = IDLE;
  c->is_open = 0;
}

static void finish(Stream* c, uint64_t now) {
  finished++;
  active--;
  if (!websocket && c->status != 200) fail(c, "HTTP", c->text.data ? c->text.data : "", c->text.length);
  check_end(c);
  if (c->is_bad) bad++;
  else {
    good++;
    add(&totals, now - c->begin);
    add(&first_events, c->first - c->begin);
    if (c->first_text) add(&first_texts, c->first_text - c->begin);
  }
  if (c->is_bad || abort_after) hang_up(c);
  c->state = IDLE;
  if (has_more()) begin(c);
  else hang_up(c);
}

static void broken(Stream* c, const char* why) {
  fail(c, why, strerror(errno), strlen(strerror(errno)));
  hang_up(c);
  c->status = 200;
  finish(c, now_us());
}

static void send_request(Stream* c) {
  Buffer* what = websocket && !c->is_open ? &handshake : &request;
  while (c->sent < what->length) {
    ssize_t n = write(c->fd, what->data + c->sent, what->length - c->sent);
    if (n < 0 && errno == EAGAIN) return;
    if (n < 0) return broken(c, "write");
    c->sent += n;
  }
  c->state = c->is_open ? BODY : HEAD;
  struct epoll_event e = {.events = EPOLLIN, .data.ptr = c};
  epoll_ctl(poller, EPOLL_CTL_MOD, c->fd, &e);
}

static void begin(Stream* c) {
  int fd = c->fd, is_open = c->is_open, one = 1;
  Buffer in = c->in, text = c->text;
  begun++;
  active++;
  *c = (Stream){.fd = fd, .is_open = is_open, .in = in, .text = text, .left = -1, .begin = now_us()};
  c->text.length = 0;
  if (!is_open) c->in.length = 0;
  struct epoll_event e = {.events = EPOLLIN | EPOLLOUT, .data.ptr = c};
  c->state = SENDING;
  if (fd >= 0) {
    epoll_ctl(poller, EPOLL_CTL_MOD, fd, &e);
    return send_request(c);
  }
  c->fd = socket(AF_INET, SOCK_STREAM | SOCK_NONBLOCK, 0);
  setsockopt(c->fd, IPPROTO_TCP, TCP_NODELAY, &one, sizeof one);
  c->state = CONNECTING;
  connect(c->fd, (void*)&address, sizeof address);
  epoll_ctl(poller, EPOLL_CTL_ADD, c->fd, &e);
}

/* Return whether the head of the answer is complete. */
static int read_head(Stream* c) {
  char* end = memmem(c->in.data, c->in.length, "\r\n\r\n", 4);
  if (!end) return 0;
  c->status = atoi(c->in.data + 9);
  for (char* line = c->in.data; line && line < end;
       line = strstr(line, "\r\n"), line = line ? line + 2 : NULL) {
    if (!strncasecmp(line, "transfer-encoding: chunked", 26)) c->is_chunked = 1;
    if (!strncasecmp(line, "content-length:", 15)) c->left = atol(line + 15);
  }
  consume(&c->in, end + 4 - c->in.data);
  c->state = BODY;
  return 1;
}

static void on_readable(Stream* c) {
  static char data[1 << 18];
  ssize_t n = read(c->fd, data, sizeof data);
  uint64_t now = now_us();
  if (n < 0 && errno == EAGAIN) return;
  if (n < 0) return broken(c, "read");
  if (n == 0) {
    errno = ECONNRESET;
    return broken(c, "closed by the gateway");
  }
  append(&c->in, data, n);
  if (c->state == HEAD) {
    if (!read_head(c)) return;
    if (websocket) {
      if (c->status != 101) return broken(c, "the handshake was refused");
      c->is_open = 1;
      c->sent = 0;
      c->state = SENDING;
      return send_request(c);
    }
  }
  if (websocket) read_frames(c, now);
  else {
    read_body(c, c->in.data, c->in.length, now);
    c->in.length = 0;
  }
  if (c->has_ended || (abort_after && c->deltas >= abort_after)) finish(c, now);
}

static void on_ready(Stream* c, unsigned events) {
  if (c->fd < 0) return;
  if (c->state == CONNECTING) {
    socklen_t size = sizeof errno;
    int error = 0;
    getsockopt(c->fd, SOL_SOCKET, SO_ERROR, &error, &size);
    if ((errno = error)) return broken(c, "connect");
    c->state = SENDING;
  }
  if (c->state == SENDING) send_request(c);
  if (c->fd >= 0 && c->state >= HEAD && events & ~EPOLLOUT) on_readable(c);
}

/* Input and output */

static void prepare(int port, const char* file) {
  static char body[1 << 22];
  char head[512];
  FILE* f = fopen(file, "r");
  size_t length = f ? fread(body, 1, sizeof body, f) : 0;
  if (!length) exit(2);
  fclose(f);
  if (websocket) {
    unsigned char frame[14] = {0x81, 0x80 | 127};
    for (int i = 0; i < 8; i++) frame[2 + i] = (uint64_t)length >> (56 - 8 * i);
    append(&request, (char*)frame, sizeof frame); /* the mask is zero */
    int size = snprintf(
        head, sizeof head,
        "GET %s HTTP/1.1\r\nHost: 127.0.0.1:%d\r\nAuthorization: Bearer sk-fake\r\nUpgrade: websocket"
        "\r\nConnection: Upgrade\r\nSec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\n"
        "Sec-WebSocket-Version: 13\r\n\r\n",
        path, port);
    append(&handshake, head, size);
  } else {
    int size =
        snprintf(head, sizeof head,
                 "POST %s HTTP/1.1\r\nHost: 127.0.0.1:%d\r\nAuthorization: Bearer sk-fake\r\nContent-Type: "
                 "application/json\r\nAccept: text/event-stream\r\nContent-Length: %zu\r\n\r\n",
                 path, port, length);
    append(&request, head, size);
  }
  append(&request, body, length);
  Buffer arguments = {0};
  char piece[64];
  int pieces = spec_calls(&spec) ? argument_pieces(&spec) : 0;
  for (int call = 0; call < spec_calls(&spec); call++)
    for (int i = spec.custom ? 1 : 0; i < pieces - (spec.custom ? 1 : 0); i++) {
      argument_piece(piece, &spec, i, pieces);
      append(&arguments, piece, strlen(piece));
    }
  expected_arguments = arguments.data;
  expected_length = arguments.length;
}

static int by_value(const void* a, const void* b) {
  uint32_t x = *(const uint32_t*)a, y = *(const uint32_t*)b;
  return x < y ? -1 : x > y;
}

static void print_samples(const char* name, Samples* s) {
  qsort(s->values, s->count, sizeof *s->values, by_value);
  double at[] = {.5, .99, 1};
  printf("\"%s\":[", name);
  for (int i = 0; i < 3; i++)
    printf("%s%.3f", i ? "," : "", s->count ? s->values[(size_t)(at[i] * (s->count - 1) + .5)] / 1e3 : -1.);
  printf("],");
}

static int numbers(char* list, long* out, int room) {
  int count = 0;
  for (char* part; count < room && (part = strsep(&list, ","));) out[count++] = atol(part);
  return count;
}

int main(int count, char** arguments) {
  const char *file = "", *name = "";
  int option, port = 0;
  long ids[64];
  struct rlimit files = {65536, 65536};
  setrlimit(RLIMIT_NOFILE, &files);
  signal(SIGPIPE, SIG_IGN);
  while ((option = getopt(count, arguments, "p:b:s:a:wn:r:T:R:WA:M:P:X:")) > 0) switch (option) {
      case 'p': port = atoi(optarg); break;
      case 'b': file = optarg; break;
      case 's': name = optarg; break;
      case 'a': path = optarg; break;
      case 'w': websocket = 1; break;
      case 'n': streams = atoi(optarg); break;
      case 'r': total = atol(optarg); break;
      case 'T': seconds = atof(optarg); break;
      case 'R': ramp_ms = atoi(optarg); break;
      case 'W': windowed = 1; break;
      case 'A': abort_after = atol(optarg); break;
      case 'M': mark_count = numbers(optarg, marks, 16); break;
      case 'P': pid_count = numbers(optarg, ids, 64); break;
      case 'X': timeout_s = atoi(optarg); break;
      default: return 2;
    }
  for (int i = 0; i < pid_count; i++) pids[i] = ids[i];
  if (!spec_parse(name, strlen(name), &spec)) return 2;
  prepare(port, file);
  address = (struct sockaddr_in){
      .sin_family = AF_INET, .sin_port = htons(port), .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
  poller = epoll_create1(0);
  if (windowed) total = streams;
  Stream* all = calloc(streams, sizeof *all);
  for (int i = 0; i < streams; i++) all[i].fd = -1;
  double cpu_begin = cpu_ms(), window_cpu = 0;
  start = now_us();
  uint64_t window_begin = start + ramp_ms * 1000ull + 300000;
  uint64_t window_end = start + (uint64_t)spec.chunks * spec.delay * 1000;
  long memory = 0, answered = 0;
  int opened = 0;
  struct epoll_event ready[512];
  for (;;) {
    uint64_t now = now_us();
    if (now - start > timeout_s * 1000000ull) break;
    for (; opened < streams && now - start >= (uint64_t)opened * ramp_ms * 1000 / streams; opened++)
      if (has_more()) begin(&all[opened]);
    if (opened == streams && !active && !has_more()) break;
    if (windowed && !in_window && !window_cpu && now >= window_begin) {
      in_window = 1;
      window_begin = now;
      window_cpu = -cpu_ms();
    }
    if (in_window && now >= window_end) {
      in_window = 0;
      window_end = now;
      window_cpu += cpu_ms();
      memory = memory_kb();
      for (int i = 0; i < streams; i++) answered += all[i].state == BODY && all[i].first;
    }
    int n = epoll_wait(poller, ready, 512, opened < streams ? 1 : 20);
    for (int i = 0; i < n; i++) on_ready(ready[i].data.ptr, ready[i].events);
  }
  printf("{\"good\":%ld,\"bad\":%ld,\"unfinished\":%d,\"wall_ms\":%.1f,\"cpu_ms\":%.3f,\"deltas\":%ld,", good,
         bad, active, (now_us() - start) / 1e3, cpu_ms() - cpu_begin, deltas);
  print_samples("first_event_ms", &first_events);
  print_samples("first_text_ms", &first_texts);
  print_samples("total_ms", &totals);
  print_samples("lag_ms", &lags);
  if (windowed)
    printf("\"window\":{\"ms\":%.1f,\"deltas\":%ld,\"cpu_ms\":%.3f,\"memory_kb\":%ld,\"open\":%ld},",
           (window_end - (double)window_begin) / 1e3, window_deltas, window_cpu, memory, answered);
  printf("\"marks\":[");
  for (int i = 0; i < marked; i++) printf("%s%.3f", i ? "," : "", mark_cpu[i]);
  printf("],\"first_error\":\"%s\"}\n", first_error);
  return 0;
}
