/* SPDX-License-Identifier: BSD-3-Clause */
/* Doubly linked circular lists, linked through a member of the element. */
#ifndef RIPC_UTIL_LIST_H
#define RIPC_UTIL_LIST_H

#include <stdbool.h>
#include <stddef.h>

struct list {
	struct list *prev, *next;
};

#define list_entry(node, type, member) ((type *)((char *)(node) - offsetof(type, member)))
#define list_for_each(node, head) \
	for (struct list *node = (head)->next; node != (head); node = node->next)
/* The body may unlink node. */
#define list_for_each_safe(node, head)                                                  \
	for (struct list *node = (head)->next, *node##_next = node->next; node != (head); \
		node = node##_next, node##_next = node->next)
/* The same for the elements, which are of this type and linked through this member. */
#define list_for_each_entry(entry, head, type, member)                                        \
	for (type *entry = list_entry((head)->next, type, member); &entry->member != (head); \
		entry = list_entry(entry->member.next, type, member))
#define list_for_each_entry_safe(entry, head, type, member)                              \
	for (type *entry = list_entry((head)->next, type, member),                       \
		*entry##_next = list_entry(entry->member.next, type, member);            \
		&entry->member != (head);                                                \
		entry = entry##_next,                                                    \
		entry##_next = list_entry(entry->member.next, type, member))

static inline void list_init(struct list *head)
{
	head->prev = head->next = head;
}

static inline bool list_empty(const struct list *head)
{
	return head->next == head;
}

static inline void list_append(struct list *head, struct list *node)
{
	node->prev = head->prev;
	node->next = head;
	head->prev->next = node;
	head->prev = node;
}

static inline void list_prepend(struct list *head, struct list *node)
{
	list_append(head->next, node);
}

/* Afterwards node is an empty list of its own: removing it again is harmless. */
static inline void list_remove(struct list *node)
{
	node->prev->next = node->next;
	node->next->prev = node->prev;
	list_init(node);
}

static inline struct list *list_pop(struct list *head)
{
	struct list *node = head->next;

	list_remove(node);
	return node;
}

#endif
