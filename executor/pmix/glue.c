//go:build cgo && pmix

#include "glue.h"
#include <stdlib.h>
#include <string.h>
#include "_cgo_export.h"

static void wait_done(pmix_status_t status, void *cbdata) { goDone(cbdata, status); }

static pmix_status_t on_connected(const pmix_proc_t *proc, void *obj, pmix_info_t info[], size_t n, pmix_op_cbfunc_t cb, void *cbdata) {
	(void)proc; (void)obj; (void)info; (void)n;
	if (cb) cb(PMIX_SUCCESS, cbdata);
	return PMIX_SUCCESS;
}

static pmix_status_t on_finalized(const pmix_proc_t *proc, void *obj, pmix_op_cbfunc_t cb, void *cbdata) {
	(void)proc; (void)obj;
	if (cb) cb(PMIX_SUCCESS, cbdata);
	return PMIX_SUCCESS;
}

static pmix_status_t on_abort(const pmix_proc_t *proc, void *obj, int status, const char msg[], pmix_proc_t procs[], size_t n, pmix_op_cbfunc_t cb, void *cbdata) {
	(void)obj; (void)procs; (void)n;
	goAbort(proc->rank, status, (char *)(msg ? msg : ""));
	if (cb) cb(PMIX_SUCCESS, cbdata);
	return PMIX_SUCCESS;
}

static pmix_status_t on_fence(const pmix_proc_t procs[], size_t n, const pmix_info_t info[], size_t ninfo, char *data, size_t ndata, pmix_modex_cbfunc_t cb, void *cbdata) {
	(void)info; (void)ninfo;
	uint32_t *ranks = malloc((n ? n : 1) * sizeof *ranks);
	if (!ranks) return PMIX_ERR_NOMEM;
	for (size_t i = 0; i < n; i++) ranks[i] = procs[i].rank;
	goFence(ranks, n, PMIX_RANK_WILDCARD, data, ndata, (void *)cb, cbdata);
	free(ranks);
	return PMIX_SUCCESS;
}

static pmix_status_t on_modex(const pmix_proc_t *proc, const pmix_info_t info[], size_t n, pmix_modex_cbfunc_t cb, void *cbdata) {
	char *key = ""; // what the task asks for, of all that the other one has to say
	for (size_t i = 0; i < n; i++)
		if (PMIX_CHECK_KEY(&info[i], PMIX_REQUIRED_KEY) && info[i].value.type == PMIX_STRING && info[i].value.data.string) key = info[i].value.data.string;
	goFetch(proc->rank, key, (void *)cb, cbdata);
	return PMIX_SUCCESS;
}

static pmix_server_module_t module = {
	.client_connected2 = on_connected,
	.client_finalized = on_finalized,
	.abort = on_abort,
	.fence_nb = on_fence,
	.direct_modex = on_modex,
};

struct glue_list { pmix_info_t *info; size_t n, size; };

glue_list *glue_list_new(size_t size) {
	glue_list *l = calloc(1, sizeof *l);
	l->size = size;
	PMIX_INFO_CREATE(l->info, size);
	return l;
}

static pmix_info_t *next(glue_list *l) {
	if (l->n == l->size) abort();
	return &l->info[l->n++];
}

void glue_list_u16(glue_list *l, const char *key, uint16_t v) { PMIX_INFO_LOAD(next(l), key, &v, PMIX_UINT16); }
void glue_list_u32(glue_list *l, const char *key, uint32_t v) { PMIX_INFO_LOAD(next(l), key, &v, PMIX_UINT32); }
void glue_list_rank(glue_list *l, const char *key, uint32_t v) { pmix_rank_t r = v; PMIX_INFO_LOAD(next(l), key, &r, PMIX_PROC_RANK); }
void glue_list_string(glue_list *l, const char *key, const char *v) { PMIX_INFO_LOAD(next(l), key, v, PMIX_STRING); }

void glue_list_list(glue_list *l, const char *key, glue_list *v) {
	pmix_info_t *i = next(l);
	pmix_data_array_t *a = calloc(1, sizeof *a);
	a->type = PMIX_INFO;
	a->size = v->n;
	a->array = v->info;
	PMIX_LOAD_KEY(i->key, key);
	i->value.type = PMIX_DATA_ARRAY;
	i->value.data.darray = a;
	free(v);
}

int glue_init(const char *dir, const char *host) {
	glue_list *l = glue_list_new(2);
	glue_list_string(l, PMIX_SERVER_TMPDIR, dir);
	glue_list_string(l, PMIX_HOSTNAME, host);
	int rc = PMIx_server_init(&module, l->info, l->n);
	PMIX_INFO_FREE(l->info, l->size);
	free(l);
	return rc;
}

void glue_finalize(void) { PMIx_server_finalize(); }

char *glue_regex(const char *nodes) { char *out = NULL; return PMIx_generate_regex(nodes, &out) == PMIX_SUCCESS ? out : NULL; }
char *glue_ppn(const char *ranks) { char *out = NULL; return PMIx_generate_ppn(ranks, &out) == PMIX_SUCCESS ? out : NULL; }

// The library goes on with a registration after the call: Go waits for goDone.
int glue_register(const char *space, int local, glue_list *l) {
	pmix_nspace_t ns;
	PMIX_LOAD_NSPACE(ns, space);
	void *w = goWaiter();
	int rc = PMIx_server_register_nspace(ns, local, l->info, l->n, wait_done, w);
	rc = goWait(w, rc);
	if (rc == PMIX_SUCCESS) {
		w = goWaiter();
		rc = PMIx_server_setup_local_support(ns, NULL, 0, wait_done, w);
		rc = goWait(w, rc);
	}
	PMIX_INFO_FREE(l->info, l->size);
	free(l);
	return rc;
}

int glue_client(const char *space, uint32_t rank, unsigned uid, unsigned gid) {
	pmix_proc_t p;
	PMIX_LOAD_PROCID(&p, space, rank);
	void *w = goWaiter();
	int rc = PMIx_server_register_client(&p, uid, gid, NULL, wait_done, w);
	return goWait(w, rc);
}

char **glue_environ(const char *space, uint32_t rank) {
	pmix_proc_t p;
	PMIX_LOAD_PROCID(&p, space, rank);
	char **env = NULL;
	if (PMIx_server_setup_fork(&p, &env) != PMIX_SUCCESS) return NULL;
	return env;
}

void glue_environ_free(char **env) {
	for (char **e = env; e && *e; e++) free(*e);
	free(env);
}

const char *glue_error(int status) { return PMIx_Error_string(status); }

static void release(void *blob) { free(blob); }

void glue_modex_done(void *cb, void *data, int status, const void *blob, size_t n) {
	char *copy = NULL;
	if (n && !(copy = malloc(n))) { status = PMIX_ERR_NOMEM; n = 0; }
	if (n) memcpy(copy, blob, n);
	((pmix_modex_cbfunc_t)cb)(status, copy, n, data, copy ? release : NULL, copy);
}

static void asked(pmix_status_t status, char *data, size_t n, void *cbdata) {
	uint64_t *id = cbdata;
	goFetched(*id, status, data, n);
	free(id);
}

int glue_ask(const char *space, uint32_t rank, uint64_t id) {
	pmix_proc_t p;
	PMIX_LOAD_PROCID(&p, space, rank);
	uint64_t *keep = malloc(sizeof *keep);
	if (!keep) return PMIX_ERR_NOMEM;
	*keep = id;
	int rc = PMIx_server_dmodex_request(&p, asked, keep);
	if (rc != PMIX_SUCCESS) free(keep);
	return rc;
}
