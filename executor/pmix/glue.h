#pragma once
#include <pmix.h>
#include <pmix_server.h>

// What Go is called for (server.go) and what it calls (glue.c). Blobs from Go are copied.

int glue_init(const char *dir, const char *host);
void glue_finalize(void);
char *glue_regex(const char *nodes);
char *glue_ppn(const char *ranks);

// The description of a step, filled one value after another.
typedef struct glue_list glue_list;
glue_list *glue_list_new(size_t n);
void glue_list_u16(glue_list *l, const char *key, uint16_t v);
void glue_list_u32(glue_list *l, const char *key, uint32_t v);
void glue_list_rank(glue_list *l, const char *key, uint32_t v);
void glue_list_string(glue_list *l, const char *key, const char *v);
void glue_list_list(glue_list *l, const char *key, glue_list *v); // takes v

int glue_register(const char *space, int local, glue_list *l); // takes l
int glue_client(const char *space, uint32_t rank, unsigned uid, unsigned gid);
char **glue_environ(const char *space, uint32_t rank); // ends with NULL
void glue_environ_free(char **env);
const char *glue_error(int status);

// Answers to what Go was asked for.
void glue_modex_done(void *cb, void *data, int status, const void *blob, size_t n);
int glue_ask(const char *space, uint32_t rank, uint64_t id); // a blob of a task here: goFetched comes
