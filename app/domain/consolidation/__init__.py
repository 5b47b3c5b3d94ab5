"""Consolidation: which memories belong together, what becomes of them, and what a summary may say."""
