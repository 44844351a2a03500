/* A scripted model server: Chat Completions and, for gateways that relay it, the Responses API.
 *
 * One thread, epoll, every byte rendered once per model name, so that it costs little next to the gateway.
 * Usage: upstream PORT [CERTIFICATE KEY]        (with both, it speaks TLS)
 * GET /stats returns and resets {"requests":..,"late_us":..}: how late its own timer was, at most. */
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
#ifdef WITH_TLS
#include <openssl/ssl.h>
#else
typedef void SSL;
#endif

#define HEAD                                                                                         \
  "HTTP/1.1 200 OK\r\nContent-Type: text/event-stream; charset=utf-8\r\nCache-Control: no-cache\r\n" \
  "Transfer-Encoding: chunked\r\n\r\n"
#define STAMP "@TTTTTTTTTTTTTTTT"

typedef struct {
  size_t offset, length, stamp; /* stamp: where the time goes, 0 for nowhere */
} Piece;

typedef struct {
  char key[200];
  Spec spec;
  int native, closing; /* closing: pieces that end the stream and are sent together */
  char* bytes;
  size_t length, capacity, head;
  Piece* pieces;
  int count, room;
} Script;

static Script* scripts[512];
static int script_count;

static void put(Script* s, const char* data, size_t length) {
  if (s->length + length + 1 > s->capacity) {
    s->capacity = (s->length + length + 1) * 2;
    s->bytes = realloc(s->bytes, s->capacity);
  }
  memcpy(s->bytes + s->length, data, length);
  s->length += length;
  s->bytes[s->length] = 0;
}

/* Append one server-sent event as one HTTP chunk. */
static void piece(Script* s, const char* event) {
  char size[32];
  size_t length = strlen(event);
  if (s->count == s->room) s->pieces = realloc(s->pieces, (s->room = s->room * 2 + 64) * sizeof(Piece));
  Piece* p = &s->pieces[s->count++];
  *p = (Piece){.offset = s->length};
  put(s, size, sprintf(size, "%zx\r\n", length));
  put(s, event, length);
  put(s, "\r\n", 2);
  p->length = s->length - p->offset;
  char* stamp = s->spec.stamped ? strstr(s->bytes + p->offset, STAMP) : NULL;
  if (stamp) p->stamp = stamp + 1 - s->bytes;
}

static void finish_script(Script* s) {
  put(s, "0\r\n\r\n", 5);
  s->pieces[s->count - 1].length += 5;
}

static void escaped(char* out, const char* text) {
  for (; *text; text++) {
    if (*text == '"' || *text == '\\') *out++ = '\\', *out++ = *text;
    else if (*text == '\n') *out++ = '\\', *out++ = 'n';
    else if (*text == '\t') *out++ = '\\', *out++ = 't';
    else *out++ = *text;
  }
  *out = 0;
}

static void token(char* out, const Spec* spec, int number) {
  if (spec->stamped) sprintf(out, "[%06d" STAMP "]", number);
  else escaped(out, TOKEN[number % TOKENS]);
}

static void chat_chunk(Script* s, const char* model, const char* delta, const char* finish) {
  char event[2048];
  snprintf(
      event, sizeof event,
      "data: {\"id\":\"chatcmpl-fake00000001\",\"object\":\"chat.completion.chunk\",\"created\":1760000000,"
      "\"model\":\"%s\",\"system_fingerprint\":\"fp_fake\",\"choices\":[{\"index\":0,\"delta\":%s,"
      "\"logprobs\":null,\"finish_reason\":%s}]}\n\n",
      model, delta, finish);
  piece(s, event);
}

static void chat_calls(Script* s, const char* model) {
  char raw[64], text[128], delta[512];
  int pieces = argument_pieces(&s->spec);
  for (int call = 0; call < spec_calls(&s->spec); call++) {
    snprintf(delta, sizeof delta,
             "{\"tool_calls\":[{\"index\":%d,\"id\":\"call_fake%04d\",\"type\":\"function\",\"function\":"
             "{\"name\":\"tool_%d\",\"arguments\":\"\"}}]}",
             call, call, call);
    chat_chunk(s, model, delta, "null");
    for (int i = 0; i < pieces; i++) {
      argument_piece(raw, &s->spec, i, pieces);
      escaped(text, raw);
      snprintf(delta, sizeof delta, "{\"tool_calls\":[{\"index\":%d,\"function\":{\"arguments\":\"%s\"}}]}",
               call, text);
      chat_chunk(s, model, delta, "null");
    }
  }
}

static void render_chat(Script* s, const char* model) {
  char text[256], line[512];
  int calls = spec_calls(&s->spec);
  chat_chunk(s, model, "{\"role\":\"assistant\",\"content\":\"\"}", "null");
  for (int i = 0; i < s->spec.reasoning; i++) {
    escaped(text, TOKEN[i % TOKENS]);
    snprintf(line, sizeof line, "{\"reasoning_content\":\"%s\"}", text);
    chat_chunk(s, model, line, "null");
  }
  if (calls) chat_calls(s, model);
  for (int i = 0; !calls && i < s->spec.chunks; i++) {
    token(text, &s->spec, i);
    snprintf(line, sizeof line, "{\"content\":\"%s\"}", text);
    chat_chunk(s, model, line, "null");
  }
  chat_chunk(s, model, "{}", calls ? "\"tool_calls\"" : "\"stop\"");
  int said = s->spec.chunks + s->spec.reasoning;
  snprintf(
      line, sizeof line,
      "data: {\"id\":\"chatcmpl-fake00000001\",\"object\":\"chat.completion.chunk\",\"created\":1760000000,"
      "\"model\":\"%s\",\"choices\":[],\"usage\":{\"prompt_tokens\":11,\"completion_tokens\":%d,"
      "\"total_tokens\":%d}}\n\n",
      model, said, 11 + said);
  piece(s, line);
  piece(s, "data: [DONE]\n\n");
  s->closing = 3;
}

static void native_event(Script* s, const char* type, const char* fields) {
  char event[2048];
  snprintf(event, sizeof event, "event: %s\ndata: {\"type\":\"%s\",\"sequence_number\":%d,%s}\n\n", type,
           type, s->count, fields);
  piece(s, event);
}

/* Text only: it is for gateways that relay the Responses API, and for clients without a gateway. */
static void render_native(Script* s) {
#define RESPONSE(status)                                                                             \
  "\"response\":{\"id\":\"resp_fake\",\"object\":\"response\",\"created_at\":1760000000,\"status\":" \
  "\"" status "\",\"model\":\"fake\",\"output\":[]}"
#define ITEM(status)                                                                           \
  "\"output_index\":0,\"item\":{\"id\":\"msg_fake\",\"type\":\"message\",\"status\":\"" status \
  "\",\"role\":\"assistant\",\"content\":[]}"
#define PLACE "\"item_id\":\"msg_fake\",\"output_index\":0,\"content_index\":0,"
  char text[256], fields[512];
  native_event(s, "response.created", RESPONSE("in_progress"));
  native_event(s, "response.in_progress", RESPONSE("in_progress"));
  native_event(s, "response.output_item.added", ITEM("in_progress"));
  native_event(s, "response.content_part.added",
               PLACE "\"part\":{\"type\":\"output_text\",\"text\":\"\",\"annotations\":[]}");
  for (int i = 0; i < s->spec.chunks; i++) {
    token(text, &s->spec, i);
    snprintf(fields, sizeof fields, PLACE "\"delta\":\"%s\",\"logprobs\":[]", text);
    native_event(s, "response.output_text.delta", fields);
  }
  native_event(s, "response.output_item.done", ITEM("completed"));
  native_event(s, "response.completed", RESPONSE("completed"));
  s->closing = 2;
}

static Script* script_for(const char* model, size_t length, int native) {
  char name[160], key[200];
  Spec spec;
  snprintf(name, sizeof name, "%.*s", (int)length, model);
  if (!spec_parse(name, strlen(name), &spec)) return NULL;
  snprintf(key, sizeof key, "%d %s", native, name);
  for (int i = 0; i < script_count; i++)
    if (!strcmp(scripts[i]->key, key)) return scripts[i];
  if (script_count == 512) return NULL;
  Script* s = calloc(1, sizeof *s);
  strcpy(s->key, key);
  s->spec = spec;
  s->native = native;
  put(s, HEAD, strlen(HEAD));
  s->head = s->length;
  if (native) render_native(s);
  else render_chat(s, name);
  finish_script(s);
  return scripts[script_count++] = s;
}

typedef struct {
  int fd, waits_to_write;
  SSL* tls;
  char* in;
  size_t received, capacity;
  Script* script;
  int next, place; /* the next piece of a paced stream; the place in the heap of timers, or -1 */
  uint64_t begin, due;
  char* out; /* what the socket has not accepted yet */
  size_t pending, sent, room;
} Connection;

static int poller;
static Connection** timers;
static int timer_count, timer_room;
static uint64_t requests, latest;

static void swap(int a, int b) {
  Connection* c = timers[a];
  timers[a] = timers[b];
  timers[b] = c;
  timers[a]->place = a;
  timers[b]->place = b;
}

static void sift(int i) {
  for (; i && timers[(i - 1) / 2]->due > timers[i]->due; i = (i - 1) / 2) swap(i, (i - 1) / 2);
  for (;;) {
    int least = i, left = 2 * i + 1;
    for (int child = left; child < timer_count && child <= left + 1; child++)
      if (timers[child]->due < timers[least]->due) least = child;
    if (least == i) return;
    swap(i, least);
    i = least;
  }
}

static void start_timer(Connection* c) {
  if (timer_count == timer_room)
    timers = realloc(timers, (timer_room = timer_room * 2 + 256) * sizeof *timers);
  c->place = timer_count;
  timers[timer_count++] = c;
  sift(c->place);
}

static void stop_timer(Connection* c) {
  int place = c->place;
  if (place < 0) return;
  swap(place, --timer_count);
  c->place = -1;
  if (place < timer_count) sift(place);
}

static void hang_up(Connection* c) {
  stop_timer(c);
#ifdef WITH_TLS
  SSL_free(c->tls);
#endif
  close(c->fd);
  free(c->in);
  free(c->out);
  free(c);
}

/* Like read and write: -1 with EAGAIN if it would block. */
static ssize_t transfer(Connection* c, char* data, size_t length, int writing) {
#ifdef WITH_TLS
  if (c->tls) {
    int n = writing ? SSL_write(c->tls, data, length) : SSL_read(c->tls, data, length);
    if (n > 0) return n;
    int reason = SSL_get_error(c->tls, n);
    errno = reason == SSL_ERROR_WANT_READ || reason == SSL_ERROR_WANT_WRITE ? EAGAIN : EIO;
    return reason == SSL_ERROR_ZERO_RETURN ? 0 : -1;
  }
#endif
  return writing ? write(c->fd, data, length) : read(c->fd, data, length);
}

/* Send what is pending; return -1 if the connection is broken. */
static int flush_out(Connection* c) {
  while (c->sent < c->pending) {
    ssize_t n = transfer(c, c->out + c->sent, c->pending - c->sent, 1);
    if (n < 0 && errno != EAGAIN) return -1;
    if (n < 0) break;
    c->sent += n;
  }
  int waits = c->sent < c->pending;
  if (!waits) c->sent = c->pending = 0;
  if (waits != c->waits_to_write) {
    struct epoll_event e = {.events = EPOLLIN | (waits ? EPOLLOUT : 0), .data.ptr = c};
    epoll_ctl(poller, EPOLL_CTL_MOD, c->fd, &e);
    c->waits_to_write = waits;
  }
  return 0;
}

static char* reserve(Connection* c, size_t length) {
  if (c->pending + length > c->room) c->out = realloc(c->out, c->room = (c->pending + length) * 2);
  return c->out + c->pending;
}

static int send_bytes(Connection* c, const char* data, size_t length) {
  memcpy(reserve(c, length), data, length);
  c->pending += length;
  return flush_out(c);
}

static int reply(Connection* c, const char* status, const char* body) {
  char text[512];
  int length = snprintf(text, sizeof text,
                        "HTTP/1.1 %s\r\nContent-Type: application/json\r\nContent-Length: %zu\r\n\r\n%s",
                        status, strlen(body), body);
  return send_bytes(c, text, length);
}

/* Send the next piece of a paced stream; the last ones go out together. */
static int send_paced(Connection* c) {
  Script* s = c->script;
  uint64_t now = now_us();
  if (now - c->due > latest) latest = now - c->due;
  int until = c->next >= s->count - s->closing ? s->count : c->next + 1;
  if (c->next == 0) {
    memcpy(reserve(c, s->head), s->bytes, s->head);
    c->pending += s->head;
  }
  for (; c->next < until; c->next++) {
    Piece* p = &s->pieces[c->next];
    char *to = reserve(c, p->length), stamp[24];
    memcpy(to, s->bytes + p->offset, p->length);
    if (p->stamp) {
      snprintf(stamp, sizeof stamp, "%016llu", (unsigned long long)now);
      memcpy(to + (p->stamp - p->offset), stamp, 16);
    }
    c->pending += p->length;
  }
  if (c->next == s->count) {
    stop_timer(c);
    c->script = NULL;
  } else {
    c->due = c->begin + (uint64_t)c->next * s->spec.delay * 1000;
    sift(c->place);
  }
  return flush_out(c);
}

static int answer(Connection* c, const char* path, const char* body, size_t length) {
  char text[128];
  if (!strncmp(path, "/stats", 6)) {
    snprintf(text, sizeof text, "{\"requests\":%llu,\"late_us\":%llu}", (unsigned long long)requests,
             (unsigned long long)latest);
    requests = latest = 0;
    return reply(c, "200 OK", text);
  }
  const char* model = memmem(body, length, "\"model\"", 7);
  if (!model) return reply(c, "200 OK", "{\"object\":\"list\",\"data\":[]}");
  model += 7;
  model += strspn(model, " :\"");
  Script* s = script_for(model, strcspn(model, "\""), strstr(path, "/responses") && !strstr(path, "/chat"));
  if (!s) return reply(c, "404 Not Found", "{\"error\":{\"message\":\"not a scripted model\"}}");
  requests++;
  if (!s->spec.delay && !s->spec.stamped) return send_bytes(c, s->bytes, s->length);
  c->script = s;
  c->next = 0;
  c->begin = c->due = now_us();
  start_timer(c);
  return 0;
}

/* Answer the request at the beginning of the buffer if it is complete; return -1 if the connection is broken.
 */
static int handle(Connection* c) {
  if (c->script || !c->received) return 0;
  c->in[c->received] = 0;
  char* end = strstr(c->in, "\r\n\r\n");
  if (!end) return 0;
  size_t head = end + 4 - c->in, length = 0;
  int is_chunked = 0;
  for (char* line = c->in; line && line < end; line = strstr(line, "\r\n"), line = line ? line + 2 : NULL) {
    if (!strncasecmp(line, "content-length:", 15)) length = strtoul(line + 15, NULL, 10);
    if (!strncasecmp(line, "transfer-encoding: chunked", 26)) is_chunked = 1;
  }
  if (is_chunked) {
    char* last = memmem(c->in + head, c->received - head, "\r\n0\r\n\r\n", 7);
    if (!last) return 0;
    length = last + 7 - (c->in + head);
  }
  if (c->received < head + length) return 0;
  char *path = strchr(c->in, ' '), kept = c->in[head + length];
  c->in[head + length] = 0;
  char path_copy[64];
  snprintf(path_copy, sizeof path_copy, "%.*s", path ? (int)strcspn(path + 1, " ") : 0, path ? path + 1 : "");
  int result = answer(c, path_copy, c->in + head, length);
  c->in[head + length] = kept;
  memmove(c->in, c->in + head + length, c->received - head - length);
  c->received -= head + length;
  return result;
}

/* Read everything that is there; return -1 if the connection is over. */
static int receive(Connection* c) {
  for (;;) {
    if (c->received + 4096 > c->capacity) c->in = realloc(c->in, (c->capacity = c->capacity * 2 + 65536) + 1);
    ssize_t n = transfer(c, c->in + c->received, c->capacity - c->received, 0);
    if (n < 0 && errno == EAGAIN) return 0;
    if (n <= 0) return -1;
    c->received += n;
    if (handle(c) < 0) return -1;
  }
}

static Connection* accepted(int fd, void* tls_context) {
  int one = 1;
  setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &one, sizeof one);
  Connection* c = calloc(1, sizeof *c);
  c->fd = fd;
  c->place = -1;
#ifdef WITH_TLS
  if (tls_context) {
    c->tls = SSL_new(tls_context);
    SSL_set_fd(c->tls, fd);
    SSL_set_accept_state(c->tls);
  }
#else
  (void)tls_context;
#endif
  struct epoll_event e = {.events = EPOLLIN, .data.ptr = c};
  epoll_ctl(poller, EPOLL_CTL_ADD, fd, &e);
  return c;
}

static void* tls_context(const char* certificate, const char* key) {
#ifdef WITH_TLS
  SSL_CTX* context = SSL_CTX_new(TLS_server_method());
  SSL_CTX_set_mode(context, SSL_MODE_ENABLE_PARTIAL_WRITE | SSL_MODE_ACCEPT_MOVING_WRITE_BUFFER);
  if (SSL_CTX_use_certificate_chain_file(context, certificate) == 1 &&
      SSL_CTX_use_PrivateKey_file(context, key, SSL_FILETYPE_PEM) == 1)
    return context;
#else
  (void)certificate, (void)key;
#endif
  fprintf(stderr, "no TLS: built without OpenSSL, or the certificate is invalid\n");
  exit(1);
}

int main(int count, char** arguments) {
  int port = count > 1 ? atoi(arguments[1]) : 0, one = 1;
  void* tls = count > 3 ? tls_context(arguments[2], arguments[3]) : NULL;
  struct rlimit files = {65536, 65536};
  setrlimit(RLIMIT_NOFILE, &files);
  signal(SIGPIPE, SIG_IGN);
  int listener = socket(AF_INET, SOCK_STREAM | SOCK_NONBLOCK, 0);
  setsockopt(listener, SOL_SOCKET, SO_REUSEADDR, &one, sizeof one);
  struct sockaddr_in address = {
      .sin_family = AF_INET, .sin_port = htons(port), .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
  if (bind(listener, (void*)&address, sizeof address) || listen(listener, 4096)) {
    perror("bind");
    return 1;
  }
  socklen_t size = sizeof address;
  getsockname(listener, (void*)&address, &size);
  printf("%d\n", ntohs(address.sin_port));
  fflush(stdout);
  poller = epoll_create1(0);
  struct epoll_event e = {.events = EPOLLIN}, ready[512];
  epoll_ctl(poller, EPOLL_CTL_ADD, listener, &e);
  for (;;) {
    uint64_t now = now_us();
    int wait = !timer_count ? -1 : timers[0]->due <= now ? 0 : (int)((timers[0]->due - now + 999) / 1000);
    int n = epoll_wait(poller, ready, 512, wait);
    for (int i = 0; i < n; i++) {
      Connection* c = ready[i].data.ptr;
      if (!c) {
        for (int fd; (fd = accept4(listener, NULL, NULL, SOCK_NONBLOCK)) >= 0;) accepted(fd, tls);
        continue;
      }
      if ((ready[i].events & EPOLLOUT && flush_out(c) < 0) || (ready[i].events & ~EPOLLOUT && receive(c) < 0))
        hang_up(c);
    }
    for (now = now_us(); timer_count && timers[0]->due <= now;) {
      Connection* c = timers[0];
      if (send_paced(c) < 0 || (!c->script && handle(c) < 0)) hang_up(c);
    }
  }
}
